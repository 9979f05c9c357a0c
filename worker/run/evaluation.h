// Evaluates a checkpoint: plays episodes with its policy, without exploration, and records them on
// request.
#ifndef DING_WORKER_WORKER_RUN_EVALUATION_H_
#define DING_WORKER_WORKER_RUN_EVALUATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/collector/serial_evaluator.h"

namespace ding {

struct EvaluationOptions {
  std::string checkpoint;  // its folder; only the model in it is needed
  int64_t n_episode = 10;  // at least 1
  uint64_t seed = 0;       // seed of the episodes, each of which begins differently
  // File for the episodes (data/episodes.h), replaced after all of them are played; empty: they are
  // not recorded. If they are, returns are the sums of the recorded rewards.
  std::string record_episodes;
};

//   kNotFound, kDataLoss  there is no checkpoint, or it is truncated or corrupted
//   kInvalidArgument      n_episode is below 1, or the checkpoint is of another model
//   kFailedPrecondition   the checkpoint is of a run without an env
//   other codes           as from WriteEpisodes
absl::StatusOr<EvalResult> EvaluateCheckpoint(const EvaluationOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_EVALUATION_H_
