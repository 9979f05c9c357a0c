// Reads and writes files and folders. Errors name the path and the reason. Writing is atomic: a
// reader sees the old file or the new one, and a failed write (full disk) leaves the old one as it
// was.
//
// Threads: thread-safe. If two threads write the same path, the last rename wins; the file is never
// a mixture of both.
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

// Joins "a" and "b" to "a/b". Returns `path` alone if it is absolute or `folder` is empty. Every
// path of a run is built with it.
std::string JoinPath(absl::string_view folder, absl::string_view path);

// The last component of a path ("a/b/c" -> "c").
absl::string_view Basename(absl::string_view path);

bool PathExists(const std::string& path);
bool IsDirectory(const std::string& path);

// An open regular file. Owns the descriptor: the destructor closes it, unless Release() was called.
class OpenFile {
 public:
  OpenFile(int fd, const struct stat& info);
  OpenFile(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  int fd() const { return fd_; }
  // Size and mode at the time when it was opened.
  int64_t size_bytes() const { return size_bytes_; }
  mode_t mode() const { return mode_; }
  // Returns the descriptor, which the caller owns from then on.
  int Release();

 private:
  int fd_;
  int64_t size_bytes_;
  mode_t mode_;
};

// Opens a file that this process may not have made, like open(2) with the same `flags` and
// `mode`. It never waits: for a FIFO, a device, a folder or a socket it returns an error that says
// what was found. Our code opens every existing file with this function.
//   kInvalidArgument   the path is not a regular file, or is too long; with O_NOFOLLOW, it is a
//                      symbolic link
//   others             open(2) failed, with the code of ErrnoStatus()
absl::StatusOr<OpenFile> OpenRegularFile(const std::string& path, int flags, mode_t mode = 0);

// The default size limit of ReadFile(): larger than any config, address file or log that is read as
// a whole.
inline constexpr int64_t kMaxReadBytes = int64_t{256} << 20;

// Returns the content of the whole file.
//   kInvalidArgument   it is not a regular file, or has more than `max_bytes`
//   kInternal          it could not be read
//   others             as from OpenRegularFile()
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = kMaxReadBytes);

// The same for a file with a secret (a key, a token, a password) of at most 1 MiB.
//   kFailedPrecondition  the file's permissions give access to others than its owner
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path);

// Writes a temporary file beside `path`, flushes it to the disk and renames it to `path`; the
// parent folder must exist.
//   kResourceExhausted  the disk is full, a quota is used up, or the file is too large
//   kInvalidArgument    `path` is a folder, or is too long
//   kPermissionDenied, kNotFound, kInternal  the file could not be written
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

// Writes a file like WriteFileAtomically, but piece by piece, with a buffer of 64 KiB.
//
// Threads: thread-compatible.
class AtomicFileWriter {
 public:
  static absl::StatusOr<std::unique_ptr<AtomicFileWriter>> Create(const std::string& path);
  AtomicFileWriter(const AtomicFileWriter&) = delete;
  AtomicFileWriter& operator=(const AtomicFileWriter&) = delete;
  // Removes the temporary file if Commit() was not called.
  ~AtomicFileWriter();

  // Returns the errors of WriteFileAtomically.
  absl::Status Append(absl::string_view bytes);
  // Flushes the file to the disk and renames it to `path`. The writer cannot be used afterwards,
  // even if this fails. Returns the errors of WriteFileAtomically.
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

// A file that is open for reading at any offset.
//
// Threads: thread-safe.
class RandomAccessFile {
 public:
  // Returns the errors of OpenRegularFile.
  static absl::StatusOr<std::unique_ptr<RandomAccessFile>> Open(const std::string& path);
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::string& path() const { return path_; }
  // The size at the time when it was opened.
  int64_t size_bytes() const { return file_.size_bytes(); }
  // Reads bytes from `offset` on until `to` is full. kDataLoss if the file ends before that.
  absl::Status ReadAt(int64_t offset, absl::Span<char> to) const;

 private:
  RandomAccessFile(absl::string_view path, OpenFile file) : path_(path), file_(std::move(file)) {}

  const std::string path_;
  const OpenFile file_;
};

// Makes a folder and its parents, like mkdir -p. OK if the folder exists already.
absl::Status CreateDirectories(const std::string& path);

// Makes `path` as a new folder, and its parents as needed. kAlreadyExists if `path` exists.
absl::Status CreateNewDirectory(const std::string& path);

// Makes a new folder beside `path` with a unique name, `path.tmp.<pid>.<n>`, and returns its path.
absl::StatusOr<std::string> CreateTemporaryDirectory(const std::string& path);

// Renames a file or folder and flushes the parent folder to the disk. A file at `to` is replaced; a
// folder must not exist there.
absl::Status RenamePath(const std::string& from, const std::string& to);

// Moves folder `from` to `to`. If there is a folder at `to`, the two exchange their names in one
// step, and the old folder is removed. After an error `to` is still complete: it is the old folder,
// or the new one if only the removal of the old one failed.
//
// On a file system that cannot exchange two names (all usual ones of Linux can), the old folder is
// first renamed to `to.old.<pid>`, and `to` is missing for a moment.
absl::Status ReplaceDirectory(const std::string& from, const std::string& to);

// Removes a file. OK if there is nothing at `path`; an error if it is a folder.
absl::Status RemoveFile(const std::string& path);

// Removes a file, or a folder with everything in it, like rm -r. OK if there is nothing at `path`.
absl::Status RemoveRecursively(const std::string& path);

// The names in a folder, sorted, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// The error for a failed system call: the text "<what>: <strerror>" and the status code that
// matches `error`, an errno.
absl::Status ErrnoStatus(int error, absl::string_view what);

}  // namespace ding

#endif  // DING_WORKER_BASE_FILE_H_
