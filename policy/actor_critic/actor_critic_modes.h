// The collect and the learn mode of on-policy actor-critic algorithms. actor_critic_policy.h
// describes the data, the settings, the reported scalars and the errors.
//
// Ownership: `options` and `networks` must outlive the modes.
// Threads:   thread-compatible; the modes share `networks`.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_MODES_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_MODES_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// In a parallel run the learner keeps the statistics of normalization: a collect mode without a
// learn mode sends, with its rows, the data of these statistics, and a learn mode without a collect
// mode adds each row that it learns from, once. The columns are "raw/<input>", the observation
// before it was normalized, and "raw_return", the discounted return (data/running_normalizer.h).
inline constexpr char kRawPrefix[] = "raw/";
inline constexpr char kRawReturn[] = "raw_return";

std::unique_ptr<CollectMode> MakeActorCriticCollect(const ActorCriticPolicyOptions& options,
                                                    ActorCritic* networks);

// Returns the entropy weight of a learn call: the weight in `settings`, or else `configured`.
//   kInvalidArgument  it is negative or not finite
absl::StatusOr<double> EntropyWeight(const NamedValues& settings, double configured);

// Returns the error of a loss that is not finite. It names the first log-probability that is not
// finite, if there is one.
absl::Status PolicyLossError(double loss, absl::Span<const float> log_prob);

//   kInvalidArgument  options of the optimizer that are out of range
absl::StatusOr<std::unique_ptr<LearnMode>> MakeActorCriticLearn(
    const ActorCriticPolicyOptions& options, ActorCritic* networks);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_ACTOR_CRITIC_MODES_H_
