// Acts with the policy of a checkpoint in your own program. The program needs neither the env nor
// the config of the training: the checkpoint describes the policy and the spaces. FindCheckpoint()
// finds the checkpoint in the folder of a run. The program must link the factory of the policy
// ("dqn": //policy/dqn:dqn_factory) and of its network ("mlp": //policy/mlp:mlp_factory).
//
// Threads: the functions are thread-safe, SavedPolicy is thread-compatible.
//
// Example (docs/how_to/use_a_policy.md):
//   DING_ASSIGN_OR_RETURN(const auto policy, SavedPolicy::Load("run/ckpt/ckpt_best"));
//   DING_ASSIGN_OR_RETURN(const BatchBuilder obs, BatchBuilder::Create(policy->observation(), 1));
//   DING_RETURN_IF_ERROR(policy->Begin());
//   while (...) {
//     ... fill obs.column<float>(0) ...
//     DING_ASSIGN_OR_RETURN(const ColumnsView actions, policy->Act(obs.view()));
//     const int64_t action = actions.column<int64_t>(0)[0];
//   }
#ifndef DING_WORKER_WORKER_SAVED_POLICY_SAVED_POLICY_H_
#define DING_WORKER_WORKER_SAVED_POLICY_SAVED_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"

namespace ding {

// How a policy acts: by its best actions, or as it collects.
struct ActorOptions {
  // False: takes the best actions (eval mode). True: draws actions (collect mode), with the
  // settings, such as epsilon, of the env step at which the checkpoint was saved. The results of
  // Act() then have further outputs after the action.
  bool sample = false;
  uint64_t seed = 0;  // of sampled actions
};

// A recurrent policy keeps a state for each id until Begin() drops it. A policy with an action mask
// reads the mask from the observation field "obs/action_mask" and takes legal actions only.
// Observations are normalized if they were in the training.
//
// Ownership: owns the policy; results of Act() are valid until its next call.
class SavedPolicy {
 public:
  // Loads the policy from the folder of a checkpoint. Errors name the checkpoint:
  //   kNotFound            it does not exist, or the policy or its network is not linked
  //   kDataLoss            it is truncated or corrupted
  //   kFailedPrecondition  an earlier version wrote it, without what is needed here
  //   kInvalidArgument     no training wrote it, or its model does not fit its description
  static absl::StatusOr<std::unique_ptr<SavedPolicy>> Load(const std::string& checkpoint,
                                                           const ActorOptions& options = {});

  // The fields of an observation and of an action, as its env had them.
  const SpecPtr& observation() const { return observation_; }
  const SpecPtr& action() const { return action_; }

  // Call it when episodes begin: those of these ids, or all if `ids` is empty. Only recurrent
  // policies need it.
  absl::Status Begin(absl::Span<const int> ids = {});

  // Chooses an action for each row of `obs` [B, ...] (observation()) and returns them [B, ...]
  // (action()). Row i belongs to the episode `ids[i]`: ids are at least 0, and each occurs at most
  // once. Without ids, row i belongs to episode i.
  //   kInvalidArgument  `obs` has other fields than observation(), or a row has no legal action
  //   kInternal         the policy's outputs are not finite
  absl::StatusOr<ColumnsView> Act(const ColumnsView& obs, absl::Span<const int> ids = {});

 private:
  SavedPolicy(SpecPtr observation, SpecPtr action, std::unique_ptr<EvalMode> actor)
      : observation_(std::move(observation)),
        action_(std::move(action)),
        actor_(std::move(actor)) {}

  const SpecPtr observation_;
  const SpecPtr action_;
  const std::unique_ptr<EvalMode> actor_;
  std::optional<BatchBuilder> output_;
  std::vector<int> row_numbers_;
};

// Loads the policy of a checkpoint for a program that has its config. `context` gives the spaces;
// its modes, seed and reward shape are ignored. The result owns the policy; one thread at a time
// may use it.
//   kNotFound         the policy is not linked, or the checkpoint has no model
//   kInvalidArgument  the config has problems, or the model does not fit it
absl::StatusOr<std::unique_ptr<EvalMode>> LoadActor(const CheckpointReader& checkpoint,
                                                    const PolicyConfig& config,
                                                    PolicyContext context,
                                                    const ActorOptions& options);

struct FoundCheckpoint {
  std::string path;
  // Why this checkpoint was chosen, as a message to the user; empty if it is ckpt_best or `path`
  // itself.
  std::string note;
};

// Finds the checkpoint in `path`: the folder of a checkpoint, of a run, or of a run's checkpoints.
// If there are several, takes ckpt_best. Without ckpt_best, takes the one with the most train
// iterations, then with the most env steps, and says so in the note.
//   kNotFound         there is no such folder, or it has no checkpoints; a run with several
//                     policies has a folder for each, which the message lists
//   kInvalidArgument  it is a file
absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& path);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SAVED_POLICY_SAVED_POLICY_H_
