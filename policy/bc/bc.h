// Behaviour cloning: supervised learning of an expert's actions from rows of observations and
// actions (Pomerleau 1989, "ALVINN"; Bain and Sammut 1995).
//
//   learn    takes one Adam step on a batch with the columns of the observation and "action". The
//            loss is ActionDistribution::ImitationLoss(): cross-entropy over the legal categories,
//            or squared error of boxes in units of half their range
//   eval     takes the most probable action
//   collect  samples. A box action is normal around the mean, with the fixed deviation of the
//            options; the output then also has "raw_action"
//   command  gives no settings
//
// Observations are normalized by the statistics of the rows of earlier batches; a batch is added to
// the statistics after its step.
//
// A learning iteration is a batch. It reports the scalars cur_lr, total_loss, grad_norm and, for
// categories, accuracy: the share of rows whose most probable action before the step equals the
// action of the data.
//
// Saved: model "actor/<parameter>", "distribution/log_std" and "statistics/..." as in ActorCritic;
// train state "optimizer/..."; collect state "rng".
//
// Ownership: the policy owns network and optimizer; its modes share them.
// Threads:   one thread at a time may use the policy, in any mode.
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
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

struct BcOptions {
  uint64_t seed = 0;  // the collect mode uses the stream (seed, "policy/collect")
  AdamOptions adam;
  double grad_clip_norm = 0;  // maximal norm of the gradient; 0: not clipped
  // Boxes only: log of the deviation of the collect mode, in units of half the range.
  double collect_log_std = -2;
  bool normalize_obs = false;
  double obs_clip = 10;      // bound of normalized observations, above 0
  FieldSchedules schedules;  // of the setting "lr" of the learn mode
  CollectAttributes collect;
  LearnAttributes learn;  // the policy sets supervised
  PolicyModes modes;
  // Averages gradients with the other learners of a group; null: a single learner. It must outlive
  // the policy. normalize_obs is refused together with a reducer, because the learners would have
  // different statistics.
  GradientReducer* reducer = nullptr;
};

class BcPolicy : public ModelPolicy<ActorCritic> {
 public:
  // `network` reads WithoutActionMask(observation) and has one output field,
  // ActionDistribution::head() of `action`.
  //   kInvalidArgument  spaces, network or options that do not fit; a recurrent network
  static absl::StatusOr<std::unique_ptr<BcPolicy>> Create(std::unique_ptr<Network> network,
                                                          SpecPtr observation, SpecPtr action,
                                                          const BcOptions& options);

  ActorCritic& networks() { return *model_; }

 private:
  using ModelPolicy::ModelPolicy;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_BC_BC_H_
