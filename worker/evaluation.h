// Evaluates a checkpoint: plays episodes with the policy in it, without exploration.
#ifndef DING_WORKER_WORKER_EVALUATION_H_
#define DING_WORKER_WORKER_EVALUATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/collector/serial_evaluator.h"

namespace ding {

struct EvaluationOptions {
  std::string checkpoint;  // its folder; it needs the model only
  int64_t n_episode = 10;  // at least 1
  uint64_t seed = 0;       // of the episodes, each of which begins differently
};

//   kNotFound, kDataLoss  no checkpoint there, or one that is truncated or corrupted
//   kInvalidArgument      n_episode below 1, or a checkpoint of another model
absl::StatusOr<EvalResult> EvaluateCheckpoint(const EvaluationOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_EVALUATION_H_
