// Behaviour cloning: supervised learning of what somebody else does, from rows of observations and
// actions (Pomerleau 1989, "ALVINN"; Bain and Sammut 1995).
//
//   learn    one Adam step on a batch with the columns of the observation and "action"; the loss is
//            ActionDistribution's of imitation: cross-entropy of categories, which an action mask
//            limits, or squared error of boxes, in units of half their range
//   eval     the most probable action
//   collect  samples; of a box around the mean, with the deviation of the options, which is not
//            learned. "raw_action" stands beside the action of a box
//   command  sets nothing
//
// Normalized observations are normalized by the statistics of the rows learned so far; a batch moves
// them after its step.
//
// A learning iteration is a batch. It reports the scalars cur_lr, total_loss, grad_norm and, of
// categories, accuracy: the share of rows whose most probable action, before the step, is that of
// the data.
//
// Saved: model "actor/<parameter>", "distribution/log_std" and "statistics/..." as ActorCritic says;
// train state "optimizer/..."; collect state "rng".
//
// Ownership: the policy owns network and optimizer; its modes share them.
// Threads:   one thread at a time, whichever mode.
// Errors:    kInvalidArgument for data of another layout and actions that do not exist or are
//            illegal; kInternal for NaN and infinity in data, loss or gradient. A failed call
//            changes nothing.
#ifndef DING_WORKER_POLICY_BC_BC_H_
#define DING_WORKER_POLICY_BC_BC_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"

namespace ding {

struct BcOptions {
  uint64_t seed = 0;  // collect mode draws from the stream (seed, "policy/collect")
  AdamOptions adam;
  double grad_clip_norm = 0;  // of the whole gradient; 0: not clipped
  // Of boxes only: log of the deviation of collect mode, in units of half the range.
  double collect_log_std = -2;
  bool normalize_obs = false;
  double obs_clip = 10;  // of normalized observations, above 0
  CollectAttributes collect;
  LearnAttributes learn;  // supervised is set
  PolicyModes modes;
  // Of the learners that step together, without normalize_obs, as the statistics would be each one's
  // own; null: this one alone. Outlives the policy.
  GradientReducer* reducer = nullptr;
};

class BcPolicy : public Policy {
 public:
  // `network` reads WithoutActionMask(observation) and has the one output field
  // ActionDistribution::head() of `action`.
  //   kInvalidArgument  spaces, network or options that do not fit
  static absl::StatusOr<std::unique_ptr<BcPolicy>> Create(std::unique_ptr<Network> network,
                                                          SpecPtr observation, SpecPtr action,
                                                          const BcOptions& options);
  ~BcPolicy() override;

  CollectMode* collect_mode() override;
  LearnMode* learn_mode() override;
  EvalMode* eval_mode() override;
  CommandMode* command_mode() override;

  ActorCritic& networks() { return *networks_; }

 private:
  class Collect;
  class Learn;
  class Command;

  BcPolicy();

  std::unique_ptr<ActorCritic> networks_;
  std::unique_ptr<Collect> collect_;
  std::unique_ptr<Learn> learn_;
  std::unique_ptr<EvalMode> eval_;
  std::unique_ptr<Command> command_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_BC_BC_H_
