// DQN (Mnih et al. 2015) with double Q-learning (van Hasselt et al. 2016), n-step targets, hard or
// soft target updates, importance weights and priorities (Schaul et al. 2016). Dueling heads (Wang
// et al. 2016) belong to the network.
//
//   collect  acts epsilon-greedily. Setting "eps" in [0, 1] is the probability of a uniform action; it
//            is required, because acting greedily by mistake is hard to notice
//   eval     acts greedily; among equal values it takes the lowest action
//   learn    takes one Adam step on a batch of transitions with the columns of data/sample_columns.h:
//            obs, action, reward, next_obs, discount and optionally weight. The optional setting "lr"
//            is the learning rate from then on
//   command  returns "eps" of the schedule and, if the learning rate falls, "lr" at info "envstep"
//
// Greedy actions, random actions and the maximum over next_obs take legal actions only
// (policy/action_mask.h). A row without a legal action is an error, unless it is the next_obs of a
// terminated episode.
//
// A learning iteration reports the scalars cur_lr, total_loss, q_value (the mean over the batch for the
// actions taken), target_q_value (the mean bootstrap value, before the discount), and |td error| as
// priorities if these are configured.
//
// Saved: model "model/<parameter>"; train state "optimizer/...", "target_model/<parameter>",
// "train_iter"; collect state "rng".
//
// Ownership: the policy owns network, target network and optimizer; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
// Errors:    kInvalidArgument for data of another layout or actions that do not exist; kInternal, with
//            the number of the training iteration, for NaN and infinity in data, loss or gradient. A
//            failed call changes no parameters, optimizer, target network and counters.
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
  uint64_t seed = 0;  // exploration uses the stream (seed, "policy/collect")
  AdamOptions adam;
  double lr_decay_env_steps = 0;  // the rate falls linearly to 0 within these; 0: it is constant
  double grad_clip_norm = 0;      // maximal norm of the gradient; 0: not clipped
  TdLossOptions loss;
  bool double_q = true;  // false: the target network also chooses the action that it evaluates
  TargetUpdate target_update;
  Schedule eps;
  CollectAttributes collect;
  LearnAttributes learn;
  PolicyModes modes;
  // Averages gradients with the other learners of a group; null: a single learner. It must outlive the
  // policy.
  GradientReducer* reducer = nullptr;
};

// Returns the number of actions of a space that DQN supports: one discrete scalar field "action".
//   kInvalidArgument  any other space
absl::StatusOr<int64_t> CountActions(const Spec& action);

class DqnPolicy : public Policy {
 public:
  // `network` has one output field, "q" [number of actions], and reads
  // WithoutActionMask(observation). If `observation` is null, it is the input spec of the network.
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
