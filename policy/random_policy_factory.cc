// Registers policy type "random".
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/policy_config.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/random_policy.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Policy>> Create(const PolicyConfig& config,
                                               const PolicyContext& context) {
  std::vector<std::string> problems;
  CreateFieldSchedules(config, /*fields=*/{}, &problems);
  ReadParams(config, /*params=*/nullptr, &problems);
  const absl::StatusOr<ActionSampler> sampler =
      ActionSampler::Create(context.action, Rng(0, ""), context.observation);
  if (!sampler.ok()) problems.emplace_back(sampler.status().message());
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
  RandomPolicyOptions options;
  options.action = context.action;
  options.observation = context.observation;
  options.seed = context.seed;
  options.collect = CollectAttributesFromConfig(config);
  options.modes = context.modes;
  return CreateRandomPolicy(options);
}

DING_REGISTER(PolicyRegistry(), "random", Create,
              "uniformly random legal actions; does not learn, for tests and measurements");

}  // namespace
}  // namespace ding
