// The folder, store and journal of a parallel run, from the coordinator's start to its end.
// parallel_run.cc has the processes that work with them.
//
// Ownership: owns the run's folder, memory, store and journal. Keeps a reference to the config,
//            which must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_DATA_H_
#define DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_DATA_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/coordinator/journal/journal.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/coordination/parallel_run.pb.h"
#include "ding_worker/worker/coordination/run_files.h"
#include "ding_worker/worker/coordination/run_memory.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run_folder/run_folder.h"

namespace ding {

class ParallelRunData {
 public:
  // As in ParallelRunOptions.
  struct Options {
    std::string exp_dir;
    bool resume = false;
    bool again = false;
  };

  ParallelRunData(const ExperimentConfig& config, const Options& options);
  ParallelRunData(const ParallelRunData&) = delete;
  ParallelRunData& operator=(const ParallelRunData&) = delete;

  // Makes the data of a new run, or opens the data of the run that is resumed. Call it once. After
  // an error, call KeepMemory() or RemoveFolder(). Returns the errors of RunParallel().
  absl::Status Open();

  // Whether the run is resumed, rather than new.
  bool is_resumed() const { return resume_; }
  // Null until they are open.
  RunFolder* folder() const { return folder_.get(); }
  Store* store() const { return store_.get(); }
  Journal* journal() const { return journal_.get(); }
  const ParallelRunInfo& info() const { return info_; }

  // Makes sure that what the run needs to continue is still there after this process has ended:
  // copies it into the folder, or keeps the store if the journal is there or the copy fails. Call
  // it when no process uses the journal any more; `journal` is the result of closing it. Returns
  // the status for ParallelOutcome::saved.
  absl::Status Save(const absl::Status& journal);
  // Notes in the folder that the run has converged, and will not be continued.
  void NoteConverged();
  // Whether Save() has decided that the data stay in the store.
  bool keeps_store() const { return keeps_store_; }

  // Deletes what is in the store, unless Save() keeps it, and flushes the logs of the folder.
  // Errors are logged.
  void Clear();
  // Keeps the memory of the run when this object is destroyed: for a resumed run that could not
  // start.
  void KeepMemory();
  // OK unless the files of the run cannot be sent to the store for a long time (RunFiles::status()).
  absl::Status FilesStatus() const {
    return files_ == nullptr ? absl::OkStatus() : files_->status();
  }
  // For a run whose files are in the store: sends the last ones, trying again until `stop` returns
  // true, and fetches the files of the other processes. Call it when this process writes no more.
  absl::Status FinishFiles(const std::function<bool()>& stop);
  // Removes the folder of a new run that could not start, since it holds nothing yet.
  void RemoveFolder();

 private:
  absl::Status OpenFolder();
  absl::Status OpenFiles(const std::string& exp_dir);
  absl::Status MakeStore();
  absl::Status OpenStore();
  absl::Status OpenJournal();
  void KeepStore();
  bool journal_is_in_store() const { return JournalIsInStore(config_); }

  const ExperimentConfig& config_;
  const Options options_;
  const bool resume_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<RunFiles> files_;  // null: they are in a folder that all processes see
  ParallelRunInfo info_;
  std::unique_ptr<RunMemory> memory_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Journal> journal_;
  bool keeps_store_ = false;  // for a resumed run, or for another coordinator
};

// Returns the result of the run in `exp_dir` if the run has converged, and thus deleted its data;
// none otherwise.
//   kInvalidArgument     that run has another config
//   kFailedPrecondition  `config` has a higher stop value, at which the run cannot continue
absl::StatusOr<std::optional<std::string>> ResultOfConvergedRun(const ExperimentConfig& config,
                                                                const std::string& exp_dir);

}  // namespace ding

#endif  // DING_WORKER_WORKER_COORDINATION_PARALLEL_RUN_DATA_H_
