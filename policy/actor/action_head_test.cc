#include "ding_worker/policy/actor/action_head.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

// The other heads are tested with the policies that have them (actor_test.cc).
class TanhHeadTest : public testing::Test {
 protected:
  BatchBuilder Outputs(const ActionHead& head, std::vector<std::vector<float>> columns) const {
    BatchBuilder outputs =
        BatchBuilder::Create(*MakeSpec(head.outputs()), static_cast<int64_t>(columns[0].size()) / 2)
            .value();
    for (size_t i = 0; i < columns.size(); ++i) {
      std::copy(columns[i].begin(), columns[i].end(),
                outputs.column<float>(static_cast<int>(i)).begin());
    }
    return outputs;
  }

  const SpecPtr action_ = *MakeSpec({Box("action", {2}, {-2, 0}, {2, 5})});
  const BatchBuilder actions_ = BatchBuilder::Create(action_, 2000).value();
};

TEST_F(TanhHeadTest, TheBestActionIsTheSquashedMean) {
  for (const char* const type : {"tanh", "tanh_normal"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead(type, action_));
    std::vector<std::vector<float>> columns = {{0, 0, 0.5f, -100}};
    if (head->outputs().size() > 1) columns.push_back({1, 1, 1, 1});
    const BatchBuilder outputs = Outputs(*head, columns);
    ASSERT_THAT(head->Best(outputs.view(), {}, actions_.view()), IsOk());
    EXPECT_FLOAT_EQ(actions_.column<float>(0)[0], 0);
    EXPECT_FLOAT_EQ(actions_.column<float>(0)[1], 2.5f);
    EXPECT_FLOAT_EQ(actions_.column<float>(0)[2], 2 * std::tanh(0.5f));
    EXPECT_FLOAT_EQ(actions_.column<float>(0)[3], 0);
  }
}

TEST_F(TanhHeadTest, SamplesHaveTheDeviation) {
  DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead("tanh_normal", action_));
  std::vector<float> mean(4000, 0.25f);
  std::vector<float> log_std(4000);
  for (size_t i = 0; i < 4000; i += 2) log_std[i] = std::log(0.5f);
  for (size_t i = 1; i < 4000; i += 2) log_std[i] = 50;  // clipped
  const BatchBuilder outputs = Outputs(*head, {mean, log_std});
  Rng rng(1, "action_head_test");
  ASSERT_THAT(head->Sample(outputs.view(), {}, 0, &rng, actions_.view()), IsOk());
  double sum[2] = {};
  double squares[2] = {};
  for (size_t i = 0; i < 4000; ++i) {
    const double low = i % 2 == 0 ? -2 : 0;
    const double half = i % 2 == 0 ? 2 : 2.5;
    const double unit = (actions_.column<float>(0)[i] - low) / half - 1;
    const double raw = std::atanh(std::clamp(unit, -1 + 1e-6, 1 - 1e-6));
    sum[i % 2] += raw / 2000;
    squares[i % 2] += raw * raw / 2000;
  }
  EXPECT_NEAR(sum[0], 0.25, 0.05);
  EXPECT_NEAR(std::sqrt(squares[0] - sum[0] * sum[0]), 0.5, 0.03);
  EXPECT_GT(std::sqrt(squares[1]), 3);  // exp(2) = 7.4, of which tanh cuts off much
}

TEST_F(TanhHeadTest, WithoutADeviationSamplesAreTheBestActions) {
  DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead("tanh", action_));
  const BatchBuilder outputs = Outputs(*head, {{0.5f, 0.5f}});
  Rng rng(1, "action_head_test");
  ASSERT_THAT(head->Sample(outputs.view(), {}, 0, &rng, actions_.view()), IsOk());
  EXPECT_FLOAT_EQ(actions_.column<float>(0)[0], 2 * std::tanh(0.5f));
}

// PPO with squashed actions: the deviation is a parameter of the policy.
TEST_F(TanhHeadTest, TheSquashedNormalActsAsTheDistributionOfTheCollectMode) {
  DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead("squashed_normal", action_));
  DING_ASSERT_OK_AND_ASSIGN(
      const auto distribution,
      ActionDistribution::Create(*action_, /*initial_log_std=*/-0.5, /*squash=*/true));
  StateDict model;
  ASSERT_THAT(SaveParameters(distribution->parameter_info(), distribution->parameters(),
                             "distribution", &model),
              IsOk());
  ASSERT_THAT(head->Load(&model), IsOk());
  const BatchBuilder outputs = Outputs(*head, {{0.5f, -100, 0.25f, 1}});
  ASSERT_THAT(head->Best(outputs.view(), {}, actions_.view()), IsOk());
  EXPECT_FLOAT_EQ(actions_.column<float>(0)[0], 2 * std::tanh(0.5f));
  EXPECT_FLOAT_EQ(actions_.column<float>(0)[1], 0);
  Rng rng(1, "action_head_test");
  Rng same = rng;
  ASSERT_THAT(head->Sample(outputs.view(), {}, 0, &rng, actions_.view()), IsOk());
  const auto fields = distribution->sample_fields();
  const BatchBuilder samples =
      BatchBuilder::Create(*MakeSpec({fields.begin(), fields.end()}), 2).value();
  const auto mean = outputs.column<float>(0);
  ASSERT_THAT(distribution->Set(mean, {}), IsOk());
  distribution->Sample(&same, samples.view());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(actions_.column<float>(0)[i], samples.column<float>(0)[i]);
    EXPECT_NE(actions_.column<float>(0)[i], 2 * std::tanh(mean[i]));
  }
}

TEST_F(TanhHeadTest, NamesWhatIsNotFiniteAndWhatDoesNotFit) {
  DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead("tanh_normal", action_));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const BatchBuilder outputs = Outputs(*head, {{0, 0, 0, 0}, {0, 0, 0, nan}});
  EXPECT_THAT(head->Best(outputs.view(), {}, actions_.view()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("'log_std' of row 1 is nan")));
  const SpecPtr discrete = *MakeSpec({Discrete("action", 2)});
  for (const char* const type : {"tanh", "tanh_normal", "normal", "squashed_normal"}) {
    EXPECT_THAT(MakeActionHead(type, discrete).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(type)));
  }
  for (const char* const type : {"q", "categorical"}) {
    EXPECT_THAT(MakeActionHead(type, action_).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(type)));
  }
}

}  // namespace
}  // namespace ding
