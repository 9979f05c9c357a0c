// Files and folders with errors that say which path and why. Writing is atomic: a reader sees the
// old file or the new one, and a failed write (full disk) leaves the old one as it was.
//
// Threads: thread-safe; two writers of one path: the last rename wins, neither tears the other.
#ifndef DING_WORKER_BASE_FILE_H_
#define DING_WORKER_BASE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ding {

// "a" and "b" -> "a/b"; `path` alone when it is absolute or `folder` is empty. Every path of a run
// is built with it.
std::string JoinPath(absl::string_view folder, absl::string_view path);

// The last component of a path ("a/b/c" -> "c").
absl::string_view Basename(absl::string_view path);

bool PathExists(const std::string& path);
bool IsDirectory(const std::string& path);

//   kNotFound  no such file;  kInvalidArgument  a folder;  kInternal, kPermissionDenied  could not
//   be read
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes `path.tmp.<pid>`, flushes it to the disk and renames it to `path`; the parent folder must
// exist.
//   kResourceExhausted  disk full, quota;  kPermissionDenied, kNotFound, kInternal  could not be
//   written
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

// mkdir -p. OK if it exists as a folder.
absl::Status CreateDirectories(const std::string& path);

// Makes `path` as a new folder: kAlreadyExists if there is one. Parents are made as needed.
absl::Status CreateNewDirectory(const std::string& path);

// Renames a file or folder and flushes the parent folder. `to` is replaced if it is a file; a
// folder must not exist.
absl::Status RenamePath(const std::string& from, const std::string& to);

// rm -r. OK if there is nothing at `path`.
absl::Status RemoveRecursively(const std::string& path);

// Names in a folder, sorted, without "." and "..".
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// The error of a failed system call: "<what>: <strerror>", with the status code that fits `error`
// (an errno).
absl::Status ErrnoStatus(int error, absl::string_view what);

}  // namespace ding

#endif  // DING_WORKER_BASE_FILE_H_
