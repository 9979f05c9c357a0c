// The common part of the factories of Q-learning algorithms: it checks their shared config and
// converts it to options and a network.
//
// QPolicyMaker collects problems, so that a user sees all of them at once (base/status_macros.h).
#ifndef DING_WORKER_POLICY_Q_LEARNING_DQN_CONFIG_H_
#define DING_WORKER_POLICY_Q_LEARNING_DQN_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/q_learning/q_policy.h"

namespace ding {

// Makes the options and the network of a Q-learning policy.
class QPolicyMaker {
 public:
  // Checks the configs. `prefix`, "" or "dqn.", begins the names of the fields of `dqn` in
  // messages. The arguments must outlive it.
  QPolicyMaker(const PolicyConfig& policy, const DqnConfig& dqn, const PolicyContext& context,
               absl::string_view prefix = "dqn.");

  // An algorithm may add its own problems and change options.
  std::vector<std::string>* problems() { return &problems_; }
  DqnOptions* options() { return &options_; }
  // For an algorithm that does not use `eps`. Appends a problem if `eps` does not have its default
  // values, and refuses schedules of it. The message contains `why` and ends with `remedy`.
  void RefuseEps(absl::string_view why, absl::string_view remedy = "remove it");

  // Creates the schedules and, with `creator`, the Q network of config field `model`. The outputs
  // of the network are those of `head`; the spaces are those of the context. Returns an error with
  // all problems.
  absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(
      const QHead& head = ValueHead(), const NetworkCreator& creator = create_network);

 private:
  void CheckFields();
  void CreateSchedules();

  const PolicyConfig& policy_;
  const DqnConfig& dqn_;
  const PolicyContext& context_;
  const std::string prefix_;
  bool has_eps_ = true;
  DqnOptions options_;
  std::vector<std::string> problems_;
};

// Describes the actor of a policy of this config. A description cannot contain a schedule of "eps":
// if `policy` has one, the description has no exploration.
absl::StatusOr<ActorDescription> DescribeQActor(const PolicyConfig& policy, const DqnConfig& config,
                                                const Spec& action);

}  // namespace ding

#endif  // DING_WORKER_POLICY_Q_LEARNING_DQN_CONFIG_H_
