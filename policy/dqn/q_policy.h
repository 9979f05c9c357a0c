// A policy of Q-learning: a network and its modes, of which a subclass brings the learn mode.
//
// Ownership: owns network and modes, which share it.
// Threads:   one thread at a time may use the policy, in any mode.
#ifndef DING_WORKER_POLICY_DQN_Q_POLICY_H_
#define DING_WORKER_POLICY_DQN_Q_POLICY_H_

#include <memory>
#include <utility>

#include "ding_worker/policy/dqn/dqn_options.h"
#include "ding_worker/policy/dqn/q_acting.h"
#include "ding_worker/policy/dqn/q_learn_mode.h"
#include "ding_worker/policy/dqn/q_network.h"
#include "ding_worker/policy/model_policy.h"
#include "ding_worker/policy/network.h"

namespace ding {

class QPolicy : public ModelPolicy<QNetwork> {
 public:
  Network& network() { return model_->network(); }

 protected:
  // Creates the modes of `options`, except the learn mode.
  QPolicy(std::unique_ptr<QNetwork> network, const DqnOptions& options)
      : ModelPolicy(std::move(network)) {
    if (options.modes.collect) {
      collect_ = std::make_unique<QCollectMode>(model_.get(), options);
    }
    if (options.modes.eval) eval_ = std::make_unique<QEvalMode>(model_.get());
    if (options.modes.command) command_ = std::make_unique<QCommandMode>(options);
  }

  QNetwork* q_network() { return model_.get(); }
  void set_learn_mode(std::unique_ptr<QLearnMode> learn) { learn_ = std::move(learn); }
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DQN_Q_POLICY_H_
