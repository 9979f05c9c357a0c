// An off-policy algorithm with continuous actions: an actor and the modes that share it. A factory of the algorithm
// fills it in.
//
// Ownership: owns actor and modes.
// Threads:   one thread at a time may use the policy, in any mode.
#ifndef DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_POLICY_H_
#define DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_POLICY_H_

#include <memory>
#include <utility>

#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_learn_mode.h"
#include "ding_worker/policy/continuous/continuous_options.h"
#include "ding_worker/policy/model_policy.h"
#include "ding_worker/policy/scheduled_settings.h"

namespace ding {

class ContinuousPolicy : public ModelPolicy<ContinuousActor> {
 public:
  // Creates the modes of `options`, except the learn mode.
  ContinuousPolicy(std::unique_ptr<ContinuousActor> actor, std::unique_ptr<Exploration> exploration,
                   const ContinuousOptions& options)
      : ModelPolicy(std::move(actor)) {
    if (options.modes.collect) {
      collect_ =
          std::make_unique<ContinuousCollectMode>(model_.get(), std::move(exploration), options);
    }
    if (options.modes.eval) eval_ = std::make_unique<ContinuousEvalMode>(model_.get());
    if (options.modes.command) command_ = std::make_unique<ScheduledSettings>(options.schedules);
  }

  ContinuousActor* actor() { return model_.get(); }
  void set_learn_mode(std::unique_ptr<ContinuousLearnMode> learn) { learn_ = std::move(learn); }
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_POLICY_H_
