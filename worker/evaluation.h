// Evaluates a checkpoint: plays episodes with the policy in it, without exploration, and keeps them if
// asked to.
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
  // File for the episodes (data/episodes.h), replaced when all are played; empty: they are not kept.
  // Returns are then the sums of the rewards in it.
  std::string record_episodes;
};

//   kNotFound, kDataLoss  no checkpoint there, or one that is truncated or corrupted
//   kInvalidArgument      n_episode below 1, or a checkpoint of another model
//   kFailedPrecondition   the checkpoint of a run without an env
//   other codes           as of WriteEpisodes
absl::StatusOr<EvalResult> EvaluateCheckpoint(const EvaluationOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_EVALUATION_H_
