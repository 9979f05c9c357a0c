#include "ding_worker/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

namespace fs = std::filesystem;

// Makes a rename in `folder` survive a power cut.
absl::Status SyncDirectory(const std::string& folder) {
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open folder '", folder, "'"));
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  // Some file systems cannot sync a folder; there the rename is as safe as they make it.
  if (error == 0 || error == EINVAL || error == ENOTSUP) return absl::OkStatus();
  return ErrnoStatus(error, absl::StrCat("cannot flush folder '", folder, "'"));
}

std::string ParentOf(const std::string& path) { return fs::path(path).parent_path().string(); }

absl::Status WriteAll(int fd, absl::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write failed");
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (fsync(fd) != 0 && errno != EINVAL) return ErrnoStatus(errno, "flush failed");
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view what) {
  const std::string message = absl::StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case EEXIST:
    case ENOTEMPTY:
      return absl::AlreadyExistsError(message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    case EISDIR:
    case EINVAL:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

std::string JoinPath(absl::string_view folder, absl::string_view path) {
  if (folder.empty() || (!path.empty() && path.front() == '/')) return std::string(path);
  return absl::StrCat(folder, folder.back() == '/' ? "" : "/", path);
}

absl::string_view Basename(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

bool PathExists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open '", path, "'"));
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  std::string content;
  struct stat info;
  if (fstat(fd, &info) == 0 && info.st_size > 0) content.reserve(static_cast<size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("cannot read '", path, "'"));
    }
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
  }
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  const std::string temporary = absl::StrCat(path, ".tmp.", getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot create '", temporary, "'"));
  absl::Status status = WriteAll(fd, content);
  if (close(fd) != 0 && status.ok()) status = ErrnoStatus(errno, "close failed");
  if (status.ok()) status = RenamePath(temporary, path);
  if (!status.ok()) unlink(temporary.c_str());
  return Annotate(status, absl::StrCat("cannot write '", path, "'"));
}

absl::Status CreateDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && IsDirectory(path)) return absl::OkStatus();
  return ErrnoStatus(error ? error.value() : ENOTDIR,
                     absl::StrCat("cannot create folder '", path, "'"));
}

absl::Status CreateNewDirectory(const std::string& path) {
  const std::string parent = ParentOf(path);
  if (!parent.empty()) DING_RETURN_IF_ERROR(CreateDirectories(parent));
  if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot create folder '", path, "'"));
}

absl::Status RenamePath(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot rename '", from, "' to '", to, "'"));
  }
  return SyncDirectory(ParentOf(to));
}

absl::Status RemoveRecursively(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), absl::StrCat("cannot remove '", path, "'"));
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("cannot list folder '", path, "'"));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ding
