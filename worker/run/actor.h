// Loads the policy of a checkpoint so that it acts: by its best actions, or as it does while it collects.
//
// Ownership: an actor owns its policy.   Threads: as Policy.
#ifndef DING_WORKER_WORKER_RUN_ACTOR_H_
#define DING_WORKER_WORKER_RUN_ACTOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {

struct ActorOptions {
  // False: greedy, by the eval mode. True: by the collect mode, with the settings (such as epsilon) of the env
  // step at which the checkpoint was saved; its further outputs follow the action.
  bool sample = false;
  uint64_t seed = 0;  // of sampled actions
};

// `context` gives the spaces; its modes, seed and reward shape are replaced, because acting reads no rewards.
//   kNotFound         the policy is not linked, or the checkpoint has no model
//   kInvalidArgument  the config has problems, or the model does not fit it
absl::StatusOr<std::unique_ptr<EvalMode>> LoadActor(const CheckpointReader& checkpoint,
                                                    const PolicyConfig& config,
                                                    PolicyContext context,
                                                    const ActorOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_ACTOR_H_
