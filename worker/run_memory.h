// The folder of a run's data in the memory of this machine. It is gone with its run: also one whose
// coordinator was killed, when the next run begins.
//
//   <base>/<run>/.lock    held, shared, by the run's coordinator and who watches it; the kernel lets
//                         go of it when they end
//   <base>/<run>/.kept    the same file, of a run that could not save its data elsewhere: the folder
//                         stays until that run has gone on, or somebody removes it
//   <base>/<run>/...      the store's
//
// A folder without a lock file is no run's, and stays.
//
// Ownership: owns the folder, and removes it.
// Threads:   thread-compatible; runs of several processes may begin and end at a time.
#ifndef DING_WORKER_WORKER_RUN_MEMORY_H_
#define DING_WORKER_WORKER_RUN_MEMORY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ding {

class RunMemory {
 public:
  // Makes `base` for this user alone, if there is none, and the folder in it.
  //   kPermissionDenied   `base` is another user's, or a link
  //   kAlreadyExists      there is such a run
  //   kResourceExhausted  the memory is full
  static absl::StatusOr<std::unique_ptr<RunMemory>> Create(const std::string& base,
                                                           const std::string& run);
  RunMemory(const RunMemory&) = delete;
  RunMemory& operator=(const RunMemory&) = delete;
  ~RunMemory();

  // The folder of a run that goes on: made, if it is gone, or has no lock file yet.
  static absl::StatusOr<std::unique_ptr<RunMemory>> Reopen(const std::string& base,
                                                           const std::string& run);

  const std::string& path() const { return path_; }
  // From now on the folder stays when this object goes, until the next run begins: this run is to go
  // on.
  void Keep() { keep_ = true; }

 private:
  RunMemory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;
  bool keep_ = false;
};

// Keeps others from removing the folder of a run whose coordinator is being started again.
class RunMemoryHold {
 public:
  // Holds the folder `path`; nothing, if that is no run's.
  explicit RunMemoryHold(const std::string& path);
  RunMemoryHold(const RunMemoryHold&) = delete;
  RunMemoryHold& operator=(const RunMemoryHold&) = delete;
  ~RunMemoryHold();

 private:
  const int lock_;
};

// Makes the folder `path` of a run stay when others begin, too, until the run itself has gone on and
// ended. OK if there is no such folder.
absl::Status KeepRunMemory(const std::string& path);
// Whether that was done.
bool IsKeptRunMemory(const std::string& path);
// Removes the folder `path` of a run, unless it is kept or somebody still works for the run.
absl::Status RemoveRunMemory(const std::string& path);

// Removes the folders of runs below `base` whose coordinators have ended; their names.
std::vector<std::string> RemoveDeadRuns(const std::string& base);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_MEMORY_H_
