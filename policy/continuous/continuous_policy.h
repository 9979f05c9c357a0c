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
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/scheduled_settings.h"

namespace ding {

class ContinuousPolicy : public Policy {
 public:
  // Creates the modes of `options`, except the learn mode.
  ContinuousPolicy(std::unique_ptr<ContinuousActor> actor, std::unique_ptr<Exploration> exploration,
                   const ContinuousOptions& options)
      : actor_(std::move(actor)) {
    if (options.modes.collect) {
      collect_ =
          std::make_unique<ContinuousCollectMode>(actor_.get(), std::move(exploration), options);
    }
    if (options.modes.eval) eval_ = std::make_unique<ContinuousEvalMode>(actor_.get());
    if (options.modes.command) command_ = std::make_unique<ScheduledSettings>(options.schedules);
  }

  CollectMode* collect_mode() override { return collect_.get(); }
  LearnMode* learn_mode() override { return learn_.get(); }
  EvalMode* eval_mode() override { return eval_.get(); }
  CommandMode* command_mode() override { return command_.get(); }

  ContinuousActor* actor() { return actor_.get(); }
  void set_learn_mode(std::unique_ptr<ContinuousLearnMode> learn) { learn_ = std::move(learn); }

 private:
  const std::unique_ptr<ContinuousActor> actor_;
  std::unique_ptr<ContinuousCollectMode> collect_;
  std::unique_ptr<ContinuousLearnMode> learn_;
  std::unique_ptr<ContinuousEvalMode> eval_;
  std::unique_ptr<ScheduledSettings> command_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_POLICY_H_
