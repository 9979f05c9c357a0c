#include "ding_worker/collector/parallel/random_start.h"

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kActions = 4;
constexpr std::array<int, 3> kEnvs = {0, 1, 2};

EnvSpec Player() {
  EnvSpec player;
  player.observation = *MakeSpec({Box("obs", {3})});
  player.action = *MakeSpec({Discrete("action", kActions)});
  return player;
}

// What the policy under test writes for three envs.
std::vector<int64_t> Act(CollectMode* policy, const TensorMap& tensors = {}) {
  const EnvSpec player = Player();
  BatchBuilder obs = *BatchBuilder::Create(player.observation, 3);
  BatchBuilder out = *BatchBuilder::Create(policy->output_spec(), 3);
  EXPECT_THAT(ForwardPolicy(policy, obs.view(), kEnvs, {}, tensors, out.view()), IsOk());
  const auto actions = out.column<int64_t>(0);
  return {actions.begin(), actions.end()};
}

TEST(RandomStartTest, ActsAtRandomAtFirst) {
  FakePolicy policy({}, Player().action);
  bool at_random = true;
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<RandomStart> start,
      RandomStart::Create(&policy, Player(), 7, [&at_random] { return at_random; }));
  std::set<int64_t> seen;
  for (int i = 0; i < 50; ++i) {
    for (const int64_t action : Act(start.get())) seen.insert(action);
  }
  EXPECT_THAT(seen, SizeIs(kActions));
  EXPECT_EQ(policy.rows, 0) << "the policy did not act";
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RandomStart> again,
                            RandomStart::Create(&policy, Player(), 7, [] { return true; }));
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RandomStart> other,
                            RandomStart::Create(&policy, Player(), 8, [] { return true; }));
  std::vector<int64_t> of_again;
  std::vector<int64_t> of_other;
  std::vector<int64_t> of_third;
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<RandomStart> third,
                            RandomStart::Create(&policy, Player(), 7, [] { return true; }));
  for (int i = 0; i < 10; ++i) {
    for (const int64_t action : Act(again.get())) of_again.push_back(action);
    for (const int64_t action : Act(other.get())) of_other.push_back(action);
    for (const int64_t action : Act(third.get())) of_third.push_back(action);
  }
  EXPECT_EQ(of_again, of_third);
  EXPECT_NE(of_again, of_other);

  TensorMap tensors;
  tensors.Set("goal", Tensor::Zeros(DType::kFloat32, {2}));
  Act(start.get(), tensors);
  EXPECT_TRUE(policy.last_tensors.empty());

  at_random = false;
  Act(start.get(), tensors);
  EXPECT_EQ(policy.rows, 3);
  EXPECT_EQ(policy.last_tensors.size(), 1u);
  EXPECT_THAT(start->Reset(kEnvs), IsOk());
  EXPECT_THAT(policy.resets, SizeIs(1));
}

TEST(RandomStartTest, RefusesAPolicyThatStoresMore) {
  FakePolicy policy({}, kActions);  // which has a logit, too
  EXPECT_THAT(RandomStart::Create(&policy, Player(), 7, [] { return true; }),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("random_collect_size"), HasSubstr("logit"))));
}

}  // namespace
}  // namespace ding
