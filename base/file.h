// Files and folders with errors that say which path and why. Writing is atomic: a reader sees the
// old file or the new one, and a failed write (full disk) leaves the old one as it was.
//
// Threads: thread-safe; two writers of one path: the last rename wins, neither tears the other.
#ifndef DING_WORKER_BASE_FILE_H_
#define DING_WORKER_BASE_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

// "a" and "b" -> "a/b"; `path` alone when it is absolute or `folder` is empty. Every path of a run
// is built with it.
std::string JoinPath(absl::string_view folder, absl::string_view path);

// The last component of a path ("a/b/c" -> "c").
absl::string_view Basename(absl::string_view path);

bool PathExists(const std::string& path);
bool IsDirectory(const std::string& path);

// An open regular file. The descriptor is closed with it, unless Release() gives it away.
class OpenFile {
 public:
  OpenFile(int fd, const struct stat& info);
  OpenFile(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  int fd() const { return fd_; }
  // When it was opened.
  int64_t size_bytes() const { return size_bytes_; }
  mode_t mode() const { return mode_; }
  int Release();

 private:
  int fd_;
  int64_t size_bytes_;
  mode_t mode_;
};

// open(2) for files that somebody else may have put there. It never waits: a FIFO, a device, a
// folder or a socket is an error that says what was found. `flags` and `mode` are those of open(2).
// Every file that is not made anew is opened with this.
//   kInvalidArgument   not a regular file; with O_NOFOLLOW, a symbolic link
//   kNotFound, kPermissionDenied, kResourceExhausted, kInternal  as of open(2)
absl::StatusOr<OpenFile> OpenRegularFile(const std::string& path, int flags, mode_t mode = 0);

// More than any text that is read as a whole: configs, addresses, logs.
inline constexpr int64_t kMaxReadBytes = int64_t{256} << 20;

// The whole file.
//   kInvalidArgument   not a regular file, or more than `max_bytes`
//   others             of OpenRegularFile(); kInternal: could not be read
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxReadBytes);

// The same for a file with a secret in it: a key, a token, a password. At most 1 MiB.
//   kFailedPrecondition  others than its owner may read or write it
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path);

// Writes a temporary file beside `path`, flushes it to the disk and renames it to `path`; the
// parent folder must exist.
//   kResourceExhausted  disk full, quota, file too large
//   kPermissionDenied, kNotFound, kInternal  could not be written
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

// The same, piece by piece, with a small buffer.
//
// Threads: thread-compatible.
class AtomicFileWriter {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFileWriter>> Create(const std::string& path);
  AtomicFileWriter(const AtomicFileWriter&) = delete;
  AtomicFileWriter& operator=(const AtomicFileWriter&) = delete;
  // Removes what was written if it was not committed.
  ~AtomicFileWriter();

  // Errors as of WriteFileAtomically.
  absl::Status Append(absl::string_view bytes);
  // Flushes and puts the file in place. The writer is used up.
  absl::Status Commit();

 private:
  AtomicFileWriter(absl::string_view path, absl::string_view temporary, int fd)
      : path_(path), temporary_(temporary), fd_(fd) {}
  absl::Status WriteOut(absl::string_view bytes);
  absl::Status FlushAndRename();

  const std::string path_;
  const std::string temporary_;
  int fd_;
  std::string buffer_;
};

// A file open for reading at any place.
//
// Threads: thread-safe.
class RandomAccessFile {
 public:
  // Errors as of OpenRegularFile.
  static absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path);
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::string& path() const { return path_; }
  // When it was opened.
  int64_t size_bytes() const { return file_.size_bytes(); }
  // Fills `to`. kDataLoss if the file ends before.
  absl::Status ReadAt(int64_t offset, absl::Span<char> to) const;

 private:
  RandomAccessFile(absl::string_view path, OpenFile file) : path_(path), file_(std::move(file)) {}

  const std::string path_;
  const OpenFile file_;
};

// mkdir -p. OK if it exists as a folder.
absl::Status CreateDirectories(const std::string& path);

// Makes `path` as a new folder: kAlreadyExists if there is one. Parents are made as needed.
absl::Status CreateNewDirectory(const std::string& path);

// Makes a new folder beside `path` with a name of its own, `path.tmp.<pid>.<n>`, and returns its
// path.
absl::StatusOr<std::string> CreateTemporaryDirectory(const std::string& path);

// Renames a file or folder and flushes the parent folder. `to` is replaced if it is a file; a
// folder must not exist.
absl::Status RenamePath(const std::string& from, const std::string& to);

// Puts folder `from` at `to`. A folder that is there is replaced in one step, where the file system
// can exchange two names (all usual ones of Linux), and removed; where it cannot, it is renamed to
// `to.old.<pid>` first. On failure `to` is whole: the old folder, or the new one if only removing
// the old one failed.
absl::Status ReplaceDirectory(const std::string& from, const std::string& to);

// OK if there is nothing at `path`; an error if it is a folder.
absl::Status RemoveFile(const std::string& path);

// rm -r. OK if there is nothing at `path`.
absl::Status RemoveRecursively(const std::string& path);

// Names in a folder, sorted, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// The error of a failed system call: "<what>: <strerror>", with the status code that fits `error`
// (an errno).
absl::Status ErrnoStatus(int error, absl::string_view what);

}  // namespace ding

#endif  // DING_WORKER_BASE_FILE_H_
