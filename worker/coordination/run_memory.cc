#include "ding_worker/worker/coordination/run_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr char kLockName[] = ".lock";
constexpr char kKeptName[] = ".kept";

absl::Status MakeBase(const std::string& base) {
  if (mkdir(base.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, absl::StrCat("cannot make '", base, "'"));
  }
  struct stat info;
  if (lstat(base.c_str(), &info) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot look at '", base, "'"));
  }
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("'", base, "' is not a folder of user ", geteuid(), " but of user ", info.st_uid,
                   " or a link: remove it, or set system.store_url to another folder"));
}

// A lock file gets its final name only after it is locked, so one that is in place is locked if its
// owner is alive.
absl::StatusOr<int> MakeLock(const std::string& folder) {
  const std::string path = JoinPath(folder, kLockName);
  const std::string made = absl::StrCat(path, ".new");
  const int fd = open(made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot make '", made, "'"));
  if (flock(fd, LOCK_SH | LOCK_NB) == 0 && rename(made.c_str(), path.c_str()) == 0) return fd;
  const absl::Status status = ErrnoStatus(errno, absl::StrCat("cannot lock '", path, "'"));
  close(fd);
  return status;
}

// Opens the lock file of an existing run; negative if there is none.
int OpenLock(const std::string& folder) {
  int fd = -1;
  for (const char* name : {kLockName, kKeptName}) {
    if (fd < 0 && !folder.empty())
      fd = open(JoinPath(folder, name).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  }
  return fd;
}

// Removes `folder` if all processes of its run have ended without removing it, and nobody has
// marked it to be kept. Returns whether it did. The lock is held meanwhile, so that no coordinator
// goes on with the run while its data are removed.
absl::StatusOr<bool> RemoveIfDead(const std::string& folder) {
  const int fd = open(JoinPath(folder, kLockName).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  const bool dead = flock(fd, LOCK_EX | LOCK_NB) == 0;
  const absl::Status removed = dead ? RemoveRecursively(folder) : absl::OkStatus();
  close(fd);
  if (!removed.ok()) return removed;
  return dead;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunMemory>> RunMemory::Create(const std::string& base,
                                                             const std::string& run) {
  DING_RETURN_IF_ERROR(MakeBase(base));
  const std::string path = JoinPath(base, run);
  DING_RETURN_IF_ERROR(CreateNewDirectory(path));
  const absl::StatusOr<int> lock = MakeLock(path);
  if (lock.ok()) return absl::WrapUnique(new RunMemory(path, *lock));
  RemoveRecursively(path).IgnoreError();  // The first error is the one to report.
  return lock.status();
}

absl::StatusOr<std::unique_ptr<RunMemory>> RunMemory::Reopen(const std::string& base,
                                                             const std::string& run) {
  const std::string path = JoinPath(base, run);
  const int fd = OpenLock(path);
  if (fd < 0) {
    // The process was killed while it made the folder, which held nothing yet.
    DING_RETURN_IF_ERROR(MakeBase(base));
    const bool has_lock =
        PathExists(JoinPath(path, kLockName)) || PathExists(JoinPath(path, kKeptName));
    if (!has_lock) DING_RETURN_IF_ERROR(RemoveRecursively(path));
    return Create(base, run);
  }
  auto memory = absl::WrapUnique(new RunMemory(path, fd));
  if (flock(fd, LOCK_SH | LOCK_NB) == 0) return memory;
  memory->Keep();  // It belongs to another process, which is removing it.
  return ErrnoStatus(errno, absl::StrCat("cannot lock '", path, "'"));
}

RunMemoryHold::RunMemoryHold(const std::string& path) : lock_(OpenLock(path)) {
  if (lock_ >= 0) flock(lock_, LOCK_SH | LOCK_NB);
}

RunMemoryHold::~RunMemoryHold() {
  if (lock_ >= 0) close(lock_);
}

RunMemory::~RunMemory() {
  if (!keep_) RemoveRecursively(path_).IgnoreError();  // The next run tries again.
  close(lock_);
}

absl::Status KeepRunMemory(const std::string& path) {
  // A rename needs no space, so it works also when the memory is full.
  if (rename(JoinPath(path, kLockName).c_str(), JoinPath(path, kKeptName).c_str()) == 0 ||
      errno == ENOENT) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, absl::StrCat("cannot keep '", path, "' for the run to go on with"));
}

bool IsKeptRunMemory(const std::string& path) { return PathExists(JoinPath(path, kKeptName)); }

absl::Status RemoveRunMemory(const std::string& path) { return RemoveIfDead(path).status(); }

std::string FolderOfStore(absl::string_view url) {
  if (!absl::ConsumePrefix(&url, "file:")) return "";
  return std::string(url.substr(0, url.find('?')));
}

std::vector<std::string> RemoveDeadRuns(const std::string& base) {
  std::vector<std::string> removed;
  const absl::StatusOr<std::vector<std::string>> runs = ListDirectory(base);
  if (!runs.ok()) return removed;
  for (const std::string& run : *runs) {
    if (RemoveIfDead(JoinPath(base, run)).value_or(false)) removed.push_back(run);
  }
  return removed;
}

}  // namespace ding
