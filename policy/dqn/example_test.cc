// The example of docs/reference/policy.md.
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// [example]
constexpr char kConfig[] = R"(
  type: "dqn"
  discount_factor: 0.97
  params {
    [type.googleapis.com/ding.DqnConfig] {
      model { encoder_hidden_size: [128, 128, 64] dueling: true }
      learning_rate: 0.001
      eps { type: EXP start: 0.95 end: 0.1 decay: 10000 }
    }
  }
)";

absl::StatusOr<std::unique_ptr<Policy>> CreateCartPolePolicy(uint64_t seed) {
  PolicyConfig config;
  if (!google::protobuf::TextFormat::ParseFromString(kConfig, &config)) {
    return absl::InvalidArgumentError("the config above does not parse");
  }
  PolicyContext context;
  DING_ASSIGN_OR_RETURN(context.observation, MakeSpec({Box("obs", {4})}));
  DING_ASSIGN_OR_RETURN(context.action, MakeSpec({Discrete("action", 2)}));
  context.seed = seed;
  return create_policy(config, context);
}

// Acts in 8 envs, then learns from one batch of the buffer.
absl::Status ActAndLearn(Policy* policy, const ColumnsView& obs, const MutableColumnsView& action,
                         const Batch& batch, int64_t envstep) {
  const NamedValues settings =
      policy->command_mode()->GetSettingCollect({{"envstep", static_cast<double>(envstep)}});
  DING_RETURN_IF_ERROR(
      policy->collect_mode()->Forward(obs, {0, 1, 2, 3, 4, 5, 6, 7}, settings, action));
  std::vector<LearnStep> steps;
  return policy->learn_mode()->Forward(batch, {}, &steps);
}
// [/example]

TEST(PolicyExample, ActsAndLearns) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateCartPolePolicy(0));
  EXPECT_THAT(policy->learn_mode()->info(), testing::HasSubstr("double dqn"));
  const SpecPtr observation = *MakeSpec({Box("obs", {4})});
  const SpecPtr action = policy->collect_mode()->output_spec();
  const Batch batch = MakeTransitionBatch(observation, action, 64, 0);
  const Batch obs = MakeObservationBatch(observation, 8, 0);
  const BatchBuilder actions = *BatchBuilder::Create(action, 8);
  EXPECT_THAT(ActAndLearn(policy.get(), obs.view(), actions.view(), batch, 100), IsOk());
}

}  // namespace
}  // namespace ding
