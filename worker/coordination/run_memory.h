// The folder of a run's data in the memory of this machine. It is removed with its run. If all
// processes of the run were killed, it is removed when the next run begins.
//
//   <base>/<run>/.lock    locked (shared) by the run's coordinator, by the process that watches it,
//                         and by each worker; the kernel releases the lock when they end
//   <base>/<run>/.kept    the same file, renamed, of a run that could not save its data elsewhere:
//                         the folder stays until that run has continued, or a person removes it
//   <base>/<run>/...      the files of the store
//
// A folder without a lock file is not taken for a run's folder, and RemoveDeadRuns() keeps it.
//
// Ownership: owns the folder, and removes it.
// Threads:   thread-compatible; runs of several processes may begin and end at the same time.
#ifndef DING_WORKER_WORKER_COORDINATION_RUN_MEMORY_H_
#define DING_WORKER_WORKER_COORDINATION_RUN_MEMORY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ding {

class RunMemory {
 public:
  // Makes `base`, accessible to this user only, if it does not exist, and in it the folder of the
  // run.
  //   kPermissionDenied   `base` belongs to another user, or is a link
  //   kAlreadyExists      the run has a folder already
  //   kResourceExhausted  the memory is full
  static absl::StatusOr<std::unique_ptr<RunMemory>> Create(const std::string& base,
                                                           const std::string& run);
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;
  ~RunMemory();

  // Opens the folder of a run that is resumed; makes it if it does not exist, or has no lock file
  // yet.
  static absl::StatusOr<std::unique_ptr<RunMemory>> Reopen(const std::string& base,
                                                           const std::string& run);

  const std::string& path() const { return path_; }
  // From now on the folder stays when this object is destroyed, until the next run begins, so that
  // this run can be resumed.
  void Keep() { keep_ = true; }

 private:
  RunMemory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;
  bool keep_ = false;
};

// Keeps other runs from removing the folder of a run whose coordinator is away, as long as this
// object lives.
class RunMemoryHold {
 public:
  // Locks `path` if it is the folder of a run. Any other path, also an empty one, has no effect.
  explicit RunMemoryHold(const std::string& path);
  RunMemoryHold(const RunMemoryHold&) = delete;
  RunMemoryHold& operator=(const RunMemoryHold&) = delete;
  ~RunMemoryHold();

 private:
  const int lock_;
};

// Keeps the folder `path` of a run also when other runs begin, until the run itself has continued
// and ended. OK if there is no such folder.
absl::Status KeepRunMemory(const std::string& path);
// Whether KeepRunMemory() was called for the folder `path`.
bool IsKeptRunMemory(const std::string& path);
// Removes the folder `path` of a run, unless it is kept or a process of the run is still alive.
absl::Status RemoveRunMemory(const std::string& path);

// Returns the folder of the store at `url`; empty if it is of another type than "file".
std::string FolderOfStore(absl::string_view url);

// Removes the folders below `base` of runs of which no process is alive. Returns their names.
std::vector<std::string> RemoveDeadRuns(const std::string& base);

}  // namespace ding

#endif  // DING_WORKER_WORKER_COORDINATION_RUN_MEMORY_H_
