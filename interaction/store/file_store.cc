#include "ding_worker/interaction/store/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <random>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/io_vectors.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/value_format.h"

namespace ding {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kTemporaryPrefix = ".tmp.";

// Returns a name that no other store has. A process id is not enough, because other machines have
// the same ids, and processes fork.
std::string UniqueName() {
  std::random_device random;
  return absl::StrCat(kTemporaryPrefix, absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

std::string LastFolderOf(absl::string_view folder) {
  while (!folder.empty() && folder.back() == '/') folder.remove_suffix(1);
  return std::string(Basename(folder));
}

// Makes the folders of `key` below `folder`, but not `folder` itself. Returns 0 or an errno.
int MakeFoldersOf(const std::string& folder, absl::string_view key) {
  for (size_t slash = key.find('/'); slash != absl::string_view::npos;
       slash = key.find('/', slash + 1)) {
    if (mkdir(JoinPath(folder, key.substr(0, slash)).c_str(), 0755) != 0 && errno != EEXIST) {
      return errno;
    }
  }
  return 0;
}

// Calls `file(path)` for every file in `folder` and in the folders of keys below it, which other
// processes may change meanwhile. Links are not followed. `key` is the path of `folder` within the
// store: "" for the store itself, else with a '/' at its end.
absl::Status ForEachFile(const std::string& folder, const std::string& key,
                         const std::function<void(const std::string& path)>& file) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    const fs::file_status status = it->symlink_status(gone);
    if (fs::is_directory(status)) {
      const std::string inner = absl::StrCat(key, it->path().filename().string());
      // Does not descend deeper than keys can, because each level holds a descriptor.
      if (!CheckStoreKey(inner).ok()) continue;
      DING_RETURN_IF_ERROR(ForEachFile(it->path().string(), absl::StrCat(inner, "/"), file));
    } else if (fs::is_regular_file(status)) {
      file(it->path().string());
    }
  }
  if (!error || error.value() == ENOENT || error.value() == ENOTDIR) return absl::OkStatus();
  return ErrnoStatus(error.value(), absl::StrCat("cannot list '", folder, "'"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Create(const std::string& folder) {
  if (folder.empty() || folder.front() != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("folder '", folder, "' of a store, expected an absolute path"));
  }
  const absl::Status made = CreateDirectories(folder);
  if (!made.ok()) return absl::UnavailableError(made.message());
  auto store = absl::WrapUnique(new FileStore(folder));
  // If this fails, the first use of the store reports the error.
  store->RemoveTemporaryFiles(Clock::Real()->Now() - absl::Hours(1)).IgnoreError();
  return store;
}

FileStore::FileStore(const std::string& folder)
    : url_(absl::StrCat("file:", folder)),
      folder_(folder),
      name_(LastFolderOf(folder)),
      temporary_name_(UniqueName()) {}

absl::Status FileStore::ErrorOf(int error, absl::string_view action, absl::string_view key) const {
  const absl::Status found =
      ErrnoStatus(error, absl::StrCat("store '", url_, "': cannot ", action, " '", key, "'"));
  if (!IsDirectory(folder_)) {
    return absl::UnavailableError(absl::StrCat(found.message(), "; the folder is gone"));
  }
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(found.message());
  }
  return absl::UnavailableError(found.message());
}

absl::Status FileStore::Damaged(absl::string_view key, absl::string_view how) const {
  return absl::DataLossError(absl::StrCat("store '", url_, "': '", key, "' is damaged: ", how));
}

std::string FileStore::ValueName(absl::string_view key) const {
  return absl::StrCat(name_, "/", key);
}

absl::StatusOr<int> FileStore::OpenTemporary(absl::string_view key, std::string* path) {
  const size_t slash = key.rfind('/');
  const absl::string_view key_folder =
      slash == absl::string_view::npos ? absl::string_view() : key.substr(0, slash + 1);
  *path = JoinPath(folder_, absl::StrCat(key_folder, temporary_name_, ".", getpid(), ".",
                                         next_temporary_.fetch_add(1, std::memory_order_relaxed)));
  const auto open_new = [path] {
    return open(path->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  };
  int fd = open_new();
  int error = fd < 0 ? errno : 0;
  if (error == ENOENT && IsDirectory(folder_)) {
    error = MakeFoldersOf(folder_, key);
    if (error == 0) {
      fd = open_new();
      error = fd < 0 ? errno : 0;
    }
  }
  if (error == ENOTDIR && IsDirectory(folder_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("store '", url_, "': '", key, "' begins with a key that has a value"));
  }
  if (error != 0) return ErrorOf(error, "put", key);
  return fd;
}

absl::Status FileStore::WriteAndRename(int fd, const std::string& temporary, absl::string_view key,
                                       absl::Span<const absl::string_view> pieces,
                                       int64_t size) const {
  const std::string header = MakeValueHeader(ValueName(key), pieces, size);
  IoVectors vectors = {VectorOf(header)};
  for (const absl::string_view piece : pieces) vectors.push_back(VectorOf(piece));
  int error = MoveAll([fd](iovec* parts, int count) { return writev(fd, parts, count); },
                      std::move(vectors));
  // Network file systems may report a full disk only here.
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), JoinPath(folder_, key).c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(temporary.c_str());
  if (error == EISDIR) {
    return absl::InvalidArgumentError(
        absl::StrCat("store '", url_, "': '", key, "' is the folder of other keys"));
  }
  return ErrorOf(error, "put", key);
}

absl::Status FileStore::Put(absl::string_view key, absl::Span<const absl::string_view> pieces) {
  DING_ASSIGN_OR_RETURN(const int64_t size, CheckPut(*this, key, pieces));
  std::string temporary;
  DING_ASSIGN_OR_RETURN(const int fd, OpenTemporary(key, &temporary));
  return WriteAndRename(fd, temporary, key, pieces, size);
}

absl::Status FileStore::Get(absl::string_view key, std::string* value) {
  DING_RETURN_IF_ERROR(CheckKey(*this, key));
  const std::string path = JoinPath(folder_, key);
  const absl::StatusOr<OpenFile> file = OpenRegularFile(path, O_RDONLY | O_NOFOLLOW);
  if (file.ok()) return Read(*file, key, value);
  if (!IsDirectory(folder_)) return ErrorOf(ENOENT, "get", key);
  struct stat info;
  const bool is_folder = lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  if (is_folder || absl::IsNotFound(file.status())) return NoSuchKey(*this, key);
  if (absl::IsInvalidArgument(file.status())) return Damaged(key, file.status().message());
  return absl::UnavailableError(
      absl::StrCat("store '", url_, "': cannot get '", key, "': ", file.status().message()));
}

absl::Status FileStore::Read(const OpenFile& file, absl::string_view key,
                             std::string* value) const {
  const int64_t stored = file.size_bytes();
  const std::string name = ValueName(key);
  const int64_t header_bytes = ValueHeaderBytes(name);
  std::string header(static_cast<size_t>(std::min(header_bytes, stored)), '\0');
  const auto read_in = [fd = file.fd()](iovec* parts, int count) {
    return readv(fd, parts, count);
  };
  int error = MoveAll(read_in, {VectorOf(header)});
  if (error == kIoEnded) return Damaged(key, "it ends too early");
  if (error != 0) return ErrorOf(error, "get", key);
  std::string damage = DamageOfHeader(name, header, stored);
  if (!damage.empty()) return Damaged(key, damage);
  const int64_t size = stored - header_bytes;
  if (size > kMaxValueBytes)
    return Damaged(key, absl::StrCat("it has ", size, " bytes, more than any value"));
  // If the same string is used for every read, this clears only the bytes by which a value is
  // longer than the one before.
  value->resize(static_cast<size_t>(size));
  error = MoveAll(read_in, {VectorOf(*value)});
  if (error == kIoEnded) return Damaged(key, "it ends too early");
  if (error != 0) return ErrorOf(error, "get", key);
  damage = DamageOfValue(name, header, *value);
  return damage.empty() ? absl::OkStatus() : Damaged(key, damage);
}

absl::Status FileStore::Delete(absl::string_view key) {
  DING_RETURN_IF_ERROR(CheckKey(*this, key));
  if (unlink(JoinPath(folder_, key).c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  const bool none = error == ENOENT || error == ENOTDIR || error == EISDIR;
  return none && IsDirectory(folder_) ? absl::OkStatus() : ErrorOf(error, "delete", key);
}

absl::StatusOr<std::vector<std::string>> FileStore::List(absl::string_view prefix) {
  if (!IsDirectory(folder_)) return ErrorOf(ENOENT, "list", prefix);
  std::vector<std::string> keys;
  const size_t key_begin = JoinPath(folder_, "x").size() - 1;
  const absl::Status status = ForEachFile(folder_, "", [&](const std::string& path) {
    const absl::string_view key = absl::string_view(path).substr(key_begin);
    if (absl::StartsWith(key, prefix) && CheckStoreKey(key).ok()) keys.emplace_back(key);
  });
  if (!status.ok()) return absl::UnavailableError(status.message());
  std::sort(keys.begin(), keys.end());
  return keys;
}

absl::Status FileStore::Clear() {
  const absl::Status status = RemoveRecursively(folder_);
  return status.ok() ? status : absl::UnavailableError(status.message());
}

absl::Status FileStore::RemoveTemporaryFiles(absl::Time written_before) {
  const absl::Status status = ForEachFile(folder_, "", [&](const std::string& path) {
    struct stat info;
    if (absl::StartsWith(Basename(path), kTemporaryPrefix) && lstat(path.c_str(), &info) == 0 &&
        absl::TimeFromTimespec(info.st_mtim) < written_before) {
      unlink(path.c_str());
    }
  });
  return status.ok() ? status : absl::UnavailableError(status.message());
}

}  // namespace ding
