// DQN (Mnih et al. 2015) with double Q-learning (van Hasselt et al. 2016), n-step targets, hard or
// soft target updates, importance weights and priorities (Schaul et al. 2016). Dueling heads (Wang
// et al. 2016) are the network's.
//
//   collect  epsilon-greedy: setting "eps" in [0, 1] is the probability of a uniform action; it is
//            required, because acting greedily by mistake is hard to notice
//   eval     greedy; of equal values the lowest action
//   learn    one Adam step on a batch of transitions, columns as in data/sample_columns.h: obs,
//            action, reward, next_obs, discount and, if there, weight; setting "lr", if there, is
//            the learning rate from now on
//   command  "eps" by the schedule and, if the learning rate falls, "lr", at info "envstep"
//
// Action masks (policy/action_mask.h) are obeyed: by the greedy and the random action, and by the
// maximum over next_obs. A row without a legal action is an error, unless it is the next_obs of a
// terminated episode.
//
// A learning iteration reports the scalars cur_lr, total_loss, q_value (mean over the batch, of the
// actions taken), target_q_value (mean of what the targets bootstrap from, before the discount),
// and, if asked to, |td error| as priorities.
//
// Saved: model "model/<parameter>"; train state "optimizer/...", "target_model/<parameter>",
// "train_iter"; collect state "rng".
//
// Ownership: the policy owns network, target network and optimizer; its modes share them.
// Threads:   one thread at a time, whichever mode.
// Errors:    kInvalidArgument for data of another layout or actions that do not exist; kInternal,
// with the number of the training iteration, for NaN and infinity in data, loss or gradient. A
// failed call leaves parameters, optimizer, target network and counters as they were.
#ifndef DING_WORKER_POLICY_DQN_DQN_H_
#define DING_WORKER_POLICY_DQN_DQN_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/schedule.h"
#include "ding_worker/policy/target_update.h"

namespace ding {

struct DqnOptions {
  uint64_t seed = 0;  // exploration draws from the stream (seed, "policy/collect")
  AdamOptions adam;
  double lr_decay_env_steps = 0;  // the rate falls linearly to 0 by then; 0: it stays
  double grad_clip_norm = 0;      // of the whole gradient; 0: not clipped
  TdLossOptions loss;
  bool double_q = true;  // false: the target network chooses the action that it values
  TargetUpdate target_update;
  Schedule eps;
  CollectAttributes collect;
  LearnAttributes learn;
  PolicyModes modes;
  // Of the learners that step together; null: this one alone. Outlives the policy.
  GradientReducer* reducer = nullptr;
};

// The number of actions of a space that DQN can act in: one discrete scalar field "action".
//   kInvalidArgument  any other space
absl::StatusOr<int64_t> CountActions(const Spec& action);

class DqnPolicy : public Policy {
 public:
  // `network` has one output field, "q" [number of actions], and reads
  // WithoutActionMask(observation); a null `observation` is what the network reads.
  static absl::StatusOr<std::unique_ptr<DqnPolicy>> Create(std::unique_ptr<Network> network,
                                                           SpecPtr action,
                                                           const DqnOptions& options,
                                                           SpecPtr observation = nullptr);
  ~DqnPolicy() override;

  CollectMode* collect_mode() override;
  LearnMode* learn_mode() override;
  EvalMode* eval_mode() override;
  CommandMode* command_mode() override;

  Network& network();

 private:
  struct Shared;
  class Collect;
  class Learn;
  class Eval;
  class Command;

  DqnPolicy();

  std::unique_ptr<Shared> shared_;
  std::unique_ptr<Collect> collect_;
  std::unique_ptr<Learn> learn_;
  std::unique_ptr<Eval> eval_;
  std::unique_ptr<Command> command_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DQN_DQN_H_
