// Policy type "tsallis": SAC with the entropy of Tsallis, which weights likely actions more (Lee
// et al. 2020, "Generalized Tsallis entropy reinforcement learning").
//
//   cost_i = ln_q pi_i = (pi_i^(q - 1) - 1) / (q - 1)       pi_i = exp(log_prob_i); q = 1: log_prob_i
//
//   bootstrap    value_i = q_i - alpha cost_i
//   actor        1/B sum_i (alpha cost_i - value_i)
#include <cmath>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/sac/sac.h"
#include "ding_worker/policy/sac/sac_factory.h"
#include "tsallis/tsallis.pb.h"

namespace tsallis {
namespace {

// The cost of an action, and its derivative by the log-probability.
ding::EntropyCost Cost(double log_prob, double entropic_index) {
  const double power = entropic_index - 1;
  if (power == 0) return {log_prob, 1};
  return {std::expm1(power * log_prob) / power, std::exp(power * log_prob)};
}

absl::StatusOr<std::unique_ptr<ding::Policy>> Create(const ding::PolicyConfig& policy,
                                                     const TsallisConfig& config,
                                                     const ding::PolicyContext& context) {
  const auto cost = [entropic_index = config.entropic_index()](double log_prob) {
    return Cost(log_prob, entropic_index);
  };
  return ding::CreateSacPolicy(policy, config.sac(), context, cost);
}

DING_REGISTER(ding::PolicyRegistry(), "tsallis", Create,
              "SAC with the entropy of Tsallis; continuous actions");
DING_REGISTER(ding::ActorDescriberRegistry(), "tsallis",
              ding::DescriberOf(ding::DescribeSacActor, &TsallisConfig::sac), "as sac");
DING_REGISTER(ding::PolicyDefaultsRegistry(), "tsallis", "[as sac: policy.params.sac]",
              "those of sac");

}  // namespace
}  // namespace tsallis
