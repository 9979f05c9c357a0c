// Judges a policy: plays whole episodes without exploration, keeps the best result, says when
// training may stop.
//
// Ownership and threads: as of ISerialCollector.
#ifndef DING_WORKER_COLLECTOR_SERIAL_EVALUATOR_H_
#define DING_WORKER_COLLECTOR_SERIAL_EVALUATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Called with the name of the checkpoint ("ckpt_best") when an evaluation beats all before it.
using SaveCheckpointFn = std::function<absl::Status(absl::string_view name)>;

struct EvalOptions {
  SaveCheckpointFn save_checkpoint;  // may be empty
  int64_t train_iter = -1;
  int64_t envstep = -1;
  std::optional<int64_t> n_episode;  // not set: what the config says
  NamedValues policy_settings;
  bool force_render = false;  // make videos, whether they are due or not
  // Asked between two vector steps, if it is set: true ends the evaluation with kCancelled.
  std::function<bool()> cancelled;
};

struct EvalResult {
  // The mean return has reached the stop value, and training has begun (train_iter > 0).
  bool stop = false;
  double mean_return = 0;
  int64_t envstep_count = 0;           // played for it
  std::vector<double> episode_return;  // all of them, env by env
  std::map<std::string, std::vector<double>>
      episode_info;  // values that the env gave at the end of its episodes
};

class ISerialEvaluator {
 public:
  virtual ~ISerialEvaluator() = default;

  virtual absl::Status ResetEnv(EnvManager* env) = 0;
  virtual absl::Status ResetPolicy(EvalMode* policy) = 0;
  // Both, and forgets the best result and when it evaluated last.
  virtual absl::Status Reset(EvalMode* policy, EnvManager* env) = 0;

  // Whether an evaluation is due. True at most once per iteration; a true answer counts as the
  // evaluation of it.
  virtual bool ShouldEval(int64_t train_iter) = 0;
  virtual absl::StatusOr<EvalResult> Eval(const EvalOptions& options) = 0;

  // Best result and time of the last evaluation.
  virtual absl::Status SaveState(StateWriter* writer) const = 0;
  virtual absl::Status LoadState(StateReader* reader) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_EVALUATOR_H_
