// Tests of collectors and evaluators in envs that declare info fields (EnvSpec::info), and of
// tensors for policies.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/game_envs.h"
#include "ding_worker/env/testing/telling_env.h"
#include "ding_worker/policy/random_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

std::unique_ptr<BaseEnvManager> Envs(int count = 3) {
  return *BaseEnvManager::Create(
      {}, std::vector<EnvFactory>(static_cast<size_t>(count), TellingEnv::Make));
}

// Checks the info of each row of TellingEnv against its observation, which is that before the step,
// and its action.
void ExpectInfoOfRows(const Batch& rows) {
  const absl::Span<const float> obs = rows.column<float>("obs");
  const absl::Span<const int64_t> action = rows.column<int64_t>("action");
  const absl::Span<const int64_t> step = rows.column<int64_t>("info/step");
  const absl::Span<const double> position = rows.column<double>("info/position");
  const absl::Span<const uint8_t> seen = rows.column<uint8_t>("info/seen");
  const absl::Span<const int32_t> goal = rows.column<int32_t>("info/goal");
  ASSERT_GT(rows.rows(), 0);
  for (size_t i = 0; i < static_cast<size_t>(rows.rows()); ++i) {
    const int64_t t = static_cast<int64_t>(obs[i]) + 1;
    EXPECT_EQ(step[i], t);
    EXPECT_THAT(position.subspan(2 * i, 2), ElementsAre(t, action[i]));
    EXPECT_EQ(seen[i], action[i]);
    EXPECT_THAT(goal.subspan(4 * i, 4), ElementsAre(t, 2 * t, 3 * t, 4 * t));
  }
}

TEST(InfoColumnsTest, Collect_Samples_HaveTheFieldsAsColumns) {
  const auto envs = Envs();
  FakePolicy policy({}, /*action_count=*/2);
  int transformed = 0;
  policy.on_train_sample = [&](SegmentBatch* data) {
    ExpectInfoOfRows(data->rows);
    ++transformed;
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, envs.get(), &policy, {}));
  for (const int64_t target : {7, 1, 20, 5}) {
    CollectOptions options;
    options.target = target;
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
    EXPECT_EQ(data.size(), target);
    ExpectInfoOfRows(data.rows);
  }
  EXPECT_EQ(transformed, 4);
}

TEST(InfoColumnsTest, Collect_Episodes_HaveTheFieldsAsColumns) {
  const auto envs = Envs();
  FakePolicy policy({}, /*action_count=*/2);
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            EpisodeSerialCollector::Create({}, envs.get(), &policy, {}));
  CollectOptions collect;
  collect.target = 5;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(collect));
  ExpectInfoOfRows(data.rows);
}

TEST(InfoColumnsTest, Eval_ReportsTheLastValues) {
  const auto envs = Envs();
  FakePolicy policy({}, /*action_count=*/2);
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            InteractionSerialEvaluator::Create({}, envs.get(), &policy, {}));
  EvalOptions options;
  options.n_episode = 3;
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, evaluator->Eval(options));
  EXPECT_THAT(result.episode_info.at("info/step"), Each(AllOf(Ge(3), Le(5))));
  EXPECT_EQ(result.episode_info.count("info/goal"), 0u) << "it is no single number";
}

// KnockoutEnv with the step of the game as info. Its players end at different times.
class TellingGame : public Env {
 public:
  TellingGame() : spec_(game_.spec()) {
    spec_.info = *MakeSpec({Scalar("info/step", DType::kInt32)});
  }
  static absl::StatusOr<std::unique_ptr<Env>> Make() { return std::make_unique<TellingGame>(); }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    step_ = 0;
    return game_.Reset(start, obs);
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    result->info_row.field<int32_t>(0)[0] = ++step_;
    return game_.Step(action, obs, result);
  }

 private:
  KnockoutEnv game_;
  EnvSpec spec_;
  int32_t step_ = 0;
};

TEST(InfoColumnsTest, Collect_PlayersThatEndBeforeTheirGame_HaveTheInfoOfTheirSteps) {
  const auto envs = *BaseEnvManager::Create({}, std::vector<EnvFactory>(4, TellingGame::Make));
  std::vector<std::unique_ptr<FakePolicy>> policies;
  std::vector<CollectMode*> modes;
  for (int i = 0; i < KnockoutEnv::kPlayers; ++i) {
    policies.push_back(std::make_unique<FakePolicy>(CollectAttributes(), /*action_count=*/2));
    modes.push_back(policies.back().get());
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            BattleSampleSerialCollector::Create({}, envs.get(), modes, {}));
  CollectOptions options;
  options.target = 60;
  DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(options));
  for (const SegmentBatch& player : data.players) {
    const absl::Span<const float> place = player.rows.column<float>("obs/place");
    const absl::Span<const int32_t> step = player.rows.column<int32_t>("info/step");
    ASSERT_GE(step.size(), 20u);
    for (size_t i = 0; i < step.size(); ++i) {
      EXPECT_EQ(step[i], static_cast<int32_t>(place[3 * i]) + 1);
    }
  }
}

TEST(PolicyTensorsTest, Collect_ReachesThePolicy) {
  const auto envs = Envs();
  FakePolicy policy({}, /*action_count=*/2);
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, envs.get(), &policy, {}));
  CollectOptions options;
  options.target = 6;
  options.policy_tensors.Set("goal", Tensor::FromSpan<float>({2}, {0.5f, -1}));
  ASSERT_THAT(collector->Collect(options), IsOk());
  ASSERT_NE(policy.last_tensors.Find("goal"), nullptr);
  EXPECT_THAT(policy.last_tensors.Find("goal")->data<float>(), ElementsAre(0.5f, -1));
}

TEST(PolicyTensorsTest, Eval_ReachesThePolicy) {
  const auto envs = Envs();
  FakePolicy policy({}, /*action_count=*/2);
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            InteractionSerialEvaluator::Create({}, envs.get(), &policy, {}));
  EvalOptions options;
  options.n_episode = 3;
  options.policy_tensors.Set("skill", Tensor::FromSpan<int64_t>({1}, {7}));
  ASSERT_THAT(evaluator->Eval(options), IsOk());
  ASSERT_NE(policy.last_tensors.Find("skill"), nullptr);
  EXPECT_THAT(policy.last_tensors.Find("skill")->data<int64_t>(), ElementsAre(7));
}

TEST(PolicyTensorsTest, Collect_PolicyThatTakesNone_RefusesThemByName) {
  const auto envs = Envs();
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            RandomCollectMode::Create(envs->env_spec().action, /*seed=*/1, {}));
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, envs.get(), policy.get(), {}));
  CollectOptions options;
  options.target = 6;
  options.policy_tensors.Set("goal", Tensor::Zeros(DType::kFloat32, {2}));
  EXPECT_THAT(collector->Collect(options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the policy takes no tensors, but policy_tensors has 'goal'")));
}

}  // namespace
}  // namespace ding
