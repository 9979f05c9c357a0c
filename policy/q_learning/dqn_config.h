// Helpers for the factories of Q-learning algorithms: they check DqnConfig and convert it.
//
// Problems are collected, so that a user sees all of them at once (base/problems.h).
#ifndef DING_WORKER_POLICY_Q_LEARNING_DQN_CONFIG_H_
#define DING_WORKER_POLICY_Q_LEARNING_DQN_CONFIG_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/q_learning/q_policy.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// Appends a problem for each field of the run that is out of range, or that `algorithm` cannot use
// because it learns from single rows. Schedules are a problem, too, unless the algorithm takes
// them: it then calls QSchedules().
void AppendRunProblems(const PolicyConfig& config, absl::string_view algorithm,
                       std::vector<std::string>* problems,
                       TakesSchedules takes_schedules = TakesSchedules::kNo);

// Creates the schedules of "learning_rate" and, if the algorithm explores by it, "eps"; appends
// their problems.
FieldSchedules QSchedules(const PolicyConfig& config, const DqnConfig& dqn, bool has_eps,
                          std::vector<std::string>* problems);

// Appends a problem for each field of `config`, except `model`, that is out of range. `prefix`
// comes before the names of fields: "" or "dqn.".
void AppendProblems(const DqnConfig& config, absl::string_view prefix,
                    std::vector<std::string>* problems);

// Whether `eps` has no field with another value than its default, for algorithms that do not use
// it.
bool IsDefaultEps(const DqnConfig& config);

// Creates the Q network of `config.model` with outputs for `head` and the spaces of `context`, by
// `creator`. Appends a problem, beside those that it returns, for each space that does not fit
// `algorithm`, and for the network.
absl::StatusOr<std::unique_ptr<Network>> CreateQNetwork(
    const DqnConfig& config, const PolicyContext& context, absl::string_view algorithm,
    absl::string_view prefix, std::vector<std::string>* problems, const QHead& head = ValueHead(),
    const NetworkCreator& creator = create_network);

DqnOptions DqnOptionsFromConfig(const PolicyConfig& config, const DqnConfig& dqn,
                                const PolicyContext& context);

// Describes the actor of a policy of this config; without its exploration if `policy` has a
// schedule of "eps", which a description cannot hold.
absl::StatusOr<ActorDescription> DescribeQActor(const PolicyConfig& policy,
                                                const DqnConfig& config);

}  // namespace ding

#endif  // DING_WORKER_POLICY_Q_LEARNING_DQN_CONFIG_H_
