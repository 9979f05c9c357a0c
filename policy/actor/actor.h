// Turns observations into actions with the policy of a checkpoint, for programs that only act:
// without protobuf, gRPC, torch, config and env. It runs the networks "mlp", "rnn", "torch_mlp",
// "torch_cnn" and "torch_rnn" of all policies whose checkpoint has an actor description
// (policy/actor/describe_actor.h). See docs/how_to/deploy.md.
//
// The actor normalizes observations if the training did. It reads an action mask from the field
// "obs/action_mask", and takes only legal actions. If the policy is recurrent, the actor keeps a
// state for each id.
// "obs/action_mask", and takes only legal actions. For a recurrent policy it keeps a state for each
// id.
//
// The outputs for a row do not depend on the batch: their bytes are always the same, and equal to
// those of Mlp and Rnn on the same type of CPU.
//
// Ownership: owns the model; results are valid until the next call.
// Threads:   thread-compatible: one actor for each thread.
// Memory:    Act() allocates only if it gets more rows, or higher ids, than ever before.
//
// Example:
//   DING_ASSIGN_OR_RETURN(const auto actor, Actor::Load("run/ckpt/ckpt_best"));
//   DING_ASSIGN_OR_RETURN(const BatchBuilder obs, BatchBuilder::Create(actor->observation(), 1));
//   ... fill obs.column<float>(0) ...
//   DING_ASSIGN_OR_RETURN(const ColumnsView action, actor->Act(obs.view()));
//   const int64_t chosen = action.column<int64_t>(0)[0];
#ifndef DING_WORKER_POLICY_ACTOR_ACTOR_H_
#define DING_WORKER_POLICY_ACTOR_ACTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/action_head.h"
#include "ding_worker/policy/actor/actor_model.h"
#include "ding_worker/policy/actor/actor_network.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/recurrent_states.h"

namespace ding {

class Actor {
 public:
  struct Options {
    // False: takes the best actions. True: draws actions as the policy does while it collects, with
    // the exploration at the checkpoint's env step.
    bool sample = false;
    uint64_t seed = 0;  // of sampled actions
  };

  // Returns the errors of LoadActorModel().
  static absl::StatusOr<std::unique_ptr<Actor>> Load(const std::string& checkpoint,
                                                     const Options& options);
  static absl::StatusOr<std::unique_ptr<Actor>> Load(const std::string& checkpoint) {
    return Load(checkpoint, Options());
  }

  // Makes an actor from a model that is already loaded.
  static absl::StatusOr<std::unique_ptr<Actor>> Create(LoadedActor loaded, const Options& options);

  // The fields of an observation and of an action, as in the env of the training.
  const SpecPtr& observation() const { return model_.observation; }
  const SpecPtr& action() const { return model_.action; }
  const ActorModel& model() const { return model_; }

  // Begins new episodes for these ids, or for all ids if `ids` is empty. Only recurrent policies
  // need this call.
  void Begin(absl::Span<const int> ids = {});

  // Returns the recurrent states of these episodes [ids, model().state_size()], so that another
  // actor can continue them; empty if the policy is not recurrent. An id that has not acted has the
  // state 0. SetStates() returns kInvalidArgument if a state has another size or is not finite, and
  // for ids that Act() refuses.
  absl::Span<const float> States(absl::Span<const int> ids);
  absl::Status SetStates(absl::Span<const int> ids, absl::Span<const float> states);

  // Chooses an action for each row of `obs` [B, ...] (observation()) and returns them [B, ...]
  // (action()). Row i belongs to the episode `ids[i]`; ids are at least 0, and each occurs once.
  // Without ids, row i belongs to episode i. If the policy is recurrent, ids must be below 2^20,
  // because the actor allocates the states of all ids up to the highest one.
  //   kInvalidArgument  `obs` has other fields than observation(), an id is out of range, or a row
  //                     has no legal action
  //   kInternal         an output of the network is not finite; no state has changed
  absl::StatusOr<ColumnsView> Act(const ColumnsView& obs, absl::Span<const int> ids = {});

  // Returns the outputs of the network for the rows of the last Act(): "q" [B, A], "logit" [B, W]
  // or "mean" [B, n].
  const ColumnsView& outputs() const { return outputs_; }

 private:
  Actor(LoadedActor loaded, const Options& options);
  // Runs everything once, so that the first action takes no longer than the later ones.
  absl::Status WarmUp();
  absl::StatusOr<ColumnsView> Choose(const ColumnsView& obs, absl::Span<const int> ids,
                                     bool sample);
  absl::Status Check(const ColumnsView& obs, absl::Span<const int>* ids);
  absl::StatusOr<ColumnsView> Normalized(const ColumnsView& inputs);

  const ActorModel model_;
  const std::unique_ptr<ActionHead> head_;
  const bool sample_;
  const double exploration_;
  Rng rng_;
  ActorNetwork network_;
  ColumnBinding inputs_;
  std::optional<RecurrentStates> states_;
  std::vector<int> row_numbers_;
  // Working memory.
  ScratchColumns normalized_scratch_;
  ScratchColumns output_scratch_;
  ScratchColumns action_scratch_;
  ColumnsView outputs_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_ACTOR_H_
