#include "ding_worker/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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
  // Some file systems cannot sync a folder. There, the file system alone decides how safe a rename
  // is.
  if (error == 0 || error == EINVAL || error == ENOTSUP) return absl::OkStatus();
  return ErrnoStatus(error, absl::StrCat("cannot flush folder '", folder, "'"));
}

std::string WithoutTrailingSlashes(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

std::string ParentOf(absl::string_view path) {
  return fs::path(WithoutTrailingSlashes(path)).parent_path().string();
}

// A name beside `path` that no other thread or process of this machine uses.
std::string TemporaryName(absl::string_view path) {
  static std::atomic<int64_t> next{0};
  return absl::StrCat(path, ".tmp.", getpid(), ".", next.fetch_add(1));
}

absl::string_view KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    case S_IFLNK:
      return "a symbolic link";
    default:
      return "a device";
  }
}

absl::Status NotRegular(const std::string& path, mode_t mode) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot open '", path, "': it is ", KindOf(mode), ", expected a regular file"));
}

absl::StatusOr<std::string> ReadAll(const OpenFile& file, const std::string& path,
                                    int64_t max_bytes) {
  const auto too_large = [&](int64_t size) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has ", size, " bytes, expected at most ", max_bytes));
  };
  if (file.size_bytes() > max_bytes) return too_large(file.size_bytes());
  std::string content;
  content.reserve(static_cast<size_t>(file.size_bytes()));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(file.fd(), buffer, sizeof(buffer));
    if (count < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("cannot read '", path, "'"));
    }
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
    // The file may grow while it is read, and files of /proc report no size.
    const auto size = static_cast<int64_t>(content.size());
    if (size > max_bytes) return too_large(size);
  }
}

// Replaces a folder on a file system that cannot exchange two names. `to` is missing for a moment.
absl::Status ReplaceByRenamingAside(const std::string& from, const std::string& to) {
  const std::string aside = absl::StrCat(to, ".old.", getpid());
  DING_RETURN_IF_ERROR(RenamePath(to, aside));
  const absl::Status status = RenamePath(from, to);
  if (status.ok()) return RemoveRecursively(aside);
  if (RenamePath(aside, to).ok()) return status;
  return Annotate(status, absl::StrCat("'", to, "' is now '", aside, "'"));
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
    case EFBIG:
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

OpenFile::OpenFile(int fd, const struct stat& info)
    : fd_(fd), size_bytes_(info.st_size), mode_(info.st_mode) {}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : fd_(other.Release()), size_bytes_(other.size_bytes_), mode_(other.mode_) {}

OpenFile::~OpenFile() {
  if (fd_ >= 0) close(fd_);
}

int OpenFile::Release() { return std::exchange(fd_, -1); }

absl::StatusOr<OpenFile> OpenRegularFile(const std::string& path, int flags, mode_t mode) {
  // O_NONBLOCK keeps open() from waiting for a FIFO without a writer or a device that is not ready;
  // it changes nothing for a regular file.
  const int fd = open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, mode);
  const int error = fd < 0 ? errno : 0;
  struct stat info;
  if (error != 0) {
    const bool looked = fstatat(AT_FDCWD, path.c_str(), &info,
                                (flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0) == 0;
    if (looked && !S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
    return ErrnoStatus(error, absl::StrCat("cannot open '", path, "'"));
  }
  if (fstat(fd, &info) != 0) {
    const absl::Status status = ErrnoStatus(errno, absl::StrCat("cannot look at '", path, "'"));
    close(fd);
    return status;
  }
  OpenFile file(fd, info);
  if (!S_ISREG(info.st_mode)) return NotRegular(path, info.st_mode);
  return file;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDONLY));
  return ReadAll(file, path, max_bytes);
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) {
  constexpr int64_t kMaxSecretBytes = int64_t{1} << 20;
  DING_ASSIGN_OR_RETURN(const OpenFile file, OpenRegularFile(path, O_RDONLY));
  if ((file.mode() & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "'%s' holds a secret, but its permissions %04o give others than its owner access, expected "
        "0600: run chmod 600 '%s'",
        path, file.mode() & 07777, path));
  }
  return ReadAll(file, path, kMaxSecretBytes);
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFileWriter> writer,
                        AtomicFileWriter::Create(path));
  DING_RETURN_IF_ERROR(writer->Append(content));
  return writer->Commit();
}

absl::StatusOr<std::unique_ptr<AtomicFileWriter>> AtomicFileWriter::Create(
    const std::string& path) {
  for (;;) {
    const std::string temporary = TemporaryName(path);
    const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0) return absl::WrapUnique(new AtomicFileWriter(path, temporary, fd));
    if (errno == EEXIST) continue;  // A process with our id left it when it crashed.
    return ErrnoStatus(errno, absl::StrCat("cannot write '", path, "'"));
  }
}

AtomicFileWriter::~AtomicFileWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::Status AtomicFileWriter::Append(absl::string_view bytes) {
  constexpr size_t kBufferBytes = 1 << 16;
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  DING_RETURN_IF_ERROR(WriteOut(buffer_));
  buffer_.clear();
  if (bytes.size() > kBufferBytes) return WriteOut(bytes);
  buffer_.append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::WriteOut(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("cannot write '", path_, "'"));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::Commit() {
  const absl::Status status = FlushAndRename();
  if (!status.ok()) unlink(temporary_.c_str());
  return status;
}

absl::Status AtomicFileWriter::FlushAndRename() {
  absl::Status status = WriteOut(buffer_);
  if (status.ok() && fsync(fd_) != 0) {
    status = ErrnoStatus(errno, absl::StrCat("cannot flush '", path_, "'"));
  }
  // Network file systems may report a full disk only here.
  if (close(std::exchange(fd_, -1)) != 0 && status.ok()) {
    status = ErrnoStatus(errno, absl::StrCat("cannot write '", path_, "'"));
  }
  if (!status.ok()) return status;
  return RenamePath(temporary_, path_);
}

absl::StatusOr<std::unique_ptr<RandomAccessFile>> RandomAccessFile::Open(const std::string& path) {
  DING_ASSIGN_OR_RETURN(OpenFile file, OpenRegularFile(path, O_RDONLY));
  return absl::WrapUnique(new RandomAccessFile(path, std::move(file)));
}

absl::Status RandomAccessFile::ReadAt(int64_t offset, absl::Span<char> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(file_.fd(), to.data(), to.size(), offset);
    if (count < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, absl::StrCat("cannot read '", path_, "'"));
    }
    if (count == 0) {
      return absl::DataLossError(absl::StrCat("'", path_, "' ends at byte ", offset, ", but ",
                                              to.size(), " more bytes were expected"));
    }
    to.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
  return absl::OkStatus();
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

absl::StatusOr<std::string> CreateTemporaryDirectory(const std::string& path) {
  for (;;) {
    std::string temporary = TemporaryName(WithoutTrailingSlashes(path));
    if (mkdir(temporary.c_str(), 0755) == 0) return temporary;
    if (errno == EEXIST) continue;
    return ErrnoStatus(errno, absl::StrCat("cannot create folder '", temporary, "'"));
  }
}

absl::Status ReplaceDirectory(const std::string& from, const std::string& to) {
  if (!PathExists(to)) return RenamePath(from, to);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) {
      return ReplaceByRenamingAside(from, to);
    }
    return ErrnoStatus(errno, absl::StrCat("cannot replace '", to, "' by '", from, "'"));
  }
  DING_RETURN_IF_ERROR(SyncDirectory(ParentOf(to)));
  return RemoveRecursively(from);
}

absl::Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot remove '", path, "'"));
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
