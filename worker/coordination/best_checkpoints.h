// Saves the policies that evaluations have shown to be the best as checkpoints ckpt_best, in the
// folders of their learners' checkpoints. The coordinator's process does it: it knows the
// evaluations, and the store keeps these versions.
//
//     RunStatus.best_policy ──► store ──► <exp_dir>/ckpt/ckpt_best, or ckpt_<name>/ckpt_best
//
// A checkpoint holds the model alone: it can be played and evaluated, and a run can begin with it.
//
// Ownership: the store is not owned and outlives this object.
// Threads:   thread-compatible.
#ifndef DING_WORKER_WORKER_COORDINATION_BEST_CHECKPOINTS_H_
#define DING_WORKER_WORKER_COORDINATION_BEST_CHECKPOINTS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run_folder/save_outage.h"

namespace ding {

class BestCheckpoints {
 public:
  BestCheckpoints(const ExperimentConfig& config, std::string exp_dir, Store* store);

  // Saves each best policy that is not the one saved last. If a policy cannot be saved, logs a
  // warning and tries again every second while the cause may pass (save_outage.h).
  void Update(const RunStatus& status);
  // Does the same at the end of the run, and tries again until `stop` returns true. Returns why a
  // policy is not saved.
  absl::Status Finish(const RunStatus& status, const std::function<bool()>& stop);

 private:
  void SaveNew(const RunStatus& status);
  absl::Status Save(const BestPolicy& best) const;

  const ExperimentConfig config_;
  const std::string exp_dir_;
  Store* const store_;
  std::map<std::string, std::string> seen_;     // by name: the key of the version
  std::map<std::string, absl::Status> failed_;  // by name: why the last one could not be written
  SaveOutage outage_{Clock::Real()};
  std::optional<Timer> since_failure_;  // none: the last attempt did not fail
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_COORDINATION_BEST_CHECKPOINTS_H_
