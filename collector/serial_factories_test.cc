// Creates every serial collector and evaluator of this package by its name.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/evaluator/metric_evaluator.h"
#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_registry.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsSupersetOf;

TEST(SerialFactoriesTest, RegistersTheNames) {
  EXPECT_THAT(SerialCollectorRegistry().Names(), IsSupersetOf({"sample", "episode"}));
  EXPECT_THAT(BattleCollectorRegistry().Names(), IsSupersetOf({"sample_1v1", "episode_1v1"}));
  EXPECT_THAT(SerialEvaluatorRegistry().Names(), IsSupersetOf({"interaction"}));
  EXPECT_THAT(BattleEvaluatorRegistry().Names(), IsSupersetOf({"battle_interaction"}));
  EXPECT_THAT(MetricEvaluatorRegistry().Names(), IsSupersetOf({"metric"}));
  EXPECT_THAT(MetricRegistry().Names(), IsSupersetOf({"accuracy", "action_mse"}));
}

TEST(SerialFactoriesTest, CreatesTheDefaultCollector) {
  FakeEnvManager envs({});
  FakePolicy policy;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      create_serial_collector(SerialCollectorConfig(), &envs, &policy, ComponentDeps()));
  CollectOptions options;
  options.target = 6;
  EXPECT_THAT(collector->Collect(options), IsOk());
}

TEST(SerialFactoriesTest, DescribesTheCollector) {
  SerialCollectorConfig config;
  config.set_type("sample");
  DING_ASSERT_OK_AND_ASSIGN(const SerialCollectorDescriptor descriptor,
                            get_serial_collector_cls(config));
  EXPECT_FALSE(descriptor.by_episode);
  EXPECT_TRUE(descriptor.in_parallel);
  config.set_type("samples");
  EXPECT_THAT(get_serial_collector_cls(config),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("sample")));
}

absl::Status AllRewardsAreSeven(int /*env_id*/, const ColumnsView& /*rows*/,
                                absl::Span<float> rewards) {
  std::fill(rewards.begin(), rewards.end(), 7.0f);
  return absl::OkStatus();
}
DING_REGISTER(RewardShapingRegistry(), "seven", AllRewardsAreSeven, "sets every reward to 7");

TEST(SerialFactoriesTest, CreatesACollectorOfEpisodes) {
  FakeEnvManager envs({});
  FakePolicy policy;
  policy.on_train_sample = [](SegmentBatch* data) { data->segments[0].stream = 77; };
  SerialCollectorConfig config;
  config.set_type("episode");
  EpisodeCollectorParams params;
  params.set_reward_shaping("seven");
  params.set_get_train_sample(true);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            create_serial_collector(config, &envs, &policy, ComponentDeps()));
  CollectOptions options;
  options.target = 4;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
  EXPECT_EQ(data.segments.size(), 4u);
  EXPECT_EQ(data.segments[0].stream, 77);
  EXPECT_THAT(data.rows.column<float>("reward"), Each(7));
  params.set_reward_shaping("eight");
  config.mutable_params()->PackFrom(params);
  config.set_max_abnormal(0);
  EXPECT_THAT(
      create_serial_collector(config, &envs, &policy, ComponentDeps()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("'eight'"), HasSubstr("seven"), HasSubstr("max_abnormal is 0"))));
  const ScopedRegistration<RewardShaping> empty(&RewardShapingRegistry(), "eight", nullptr);
  EXPECT_THAT(create_serial_collector(config, &envs, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("reward shaping 'eight' is an empty function")));
  config.mutable_params()->PackFrom(BattleSampleCollectorParams());
  EXPECT_THAT(create_serial_collector(config, &envs, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected a ding.EpisodeCollectorParams")));
}

TEST(SerialFactoriesTest, CreatesACollectorOfSamplesWithShapedRewards) {
  FakeEnvManager envs({});
  FakePolicy policy;
  SerialCollectorConfig config;
  SampleCollectorParams params;
  params.set_reward_shaping("seven");
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            create_serial_collector(config, &envs, &policy, ComponentDeps()));
  CollectOptions options;
  options.target = 8;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
  EXPECT_GE(data.rows.rows(), 8);
  EXPECT_THAT(data.rows.column<float>("reward"), Each(7));
  params.set_reward_shaping("eight");
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_serial_collector(config, &envs, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'eight'")));
}

TEST(SerialFactoriesTest, CreatesWorkersOfGames) {
  FakeEnvManager::Options game;
  game.players = 2;
  FakeEnvManager games(game);
  FakePolicy ours;
  FakePolicy theirs;
  for (const char* const type : {"sample_1v1", "episode_1v1"}) {
    SerialCollectorConfig config;
    config.set_type(type);
    EXPECT_THAT(get_battle_collector_cls(config), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(
        const auto collector,
        create_battle_collector(config, &games, {&ours, &theirs}, ComponentDeps()));
    CollectOptions options;
    options.target = 3;
    DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(options));
    EXPECT_GT(data.players[0].size(), 0);
    EXPECT_EQ(data.players[0].size(), data.players[1].size());
  }
  SerialCollectorConfig config;
  config.set_type("sample_1v1");
  BattleSampleCollectorParams params;
  params.add_collect_players(1);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      create_battle_collector(config, &games, {&ours, &theirs}, ComponentDeps()));
  CollectOptions options;
  options.target = 3;
  DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(options));
  EXPECT_EQ(data.players[0].size(), 0);
  SerialEvaluatorConfig judge;
  judge.set_type("battle_interaction");
  DING_ASSERT_OK_AND_ASSIGN(
      const auto evaluator,
      create_battle_evaluator(judge, &games, {&ours, &theirs}, ComponentDeps()));
  EXPECT_TRUE(evaluator->ShouldEval(0));
  EXPECT_TRUE(evaluator->ShouldEval(50));
  EXPECT_THAT(evaluator->Eval({}), IsOk());
}

TEST(SerialFactoriesTest, ReadsTheParametersOfVideos) {
  FakeEnvManager envs({});
  FakePolicy policy;
  SerialEvaluatorConfig config;
  InteractionEvaluatorParams params;
  params.set_max_video_frames(0);
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_serial_evaluator(config, &envs, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("params.max_video_frames is 0, expected at least 1")));
  params.clear_max_video_frames();
  params.mutable_render()->set_mode("hours");
  params.mutable_render()->set_render_freq(0);
  config.mutable_params()->PackFrom(params);
  EXPECT_THAT(create_serial_evaluator(config, &envs, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("render.mode is 'hours'"), HasSubstr("render_freq is 0"))));
  params = InteractionEvaluatorParams();
  params.mutable_render()->set_mode("envstep");
  params.mutable_render()->set_render_freq(1);
  config.mutable_params()->PackFrom(params);
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            create_serial_evaluator(config, &envs, &policy, ComponentDeps()));
  EvalOptions options;
  EXPECT_THAT(evaluator->Eval(options), IsOk());
  options.envstep = 5;
  EXPECT_THAT(evaluator->Eval(options), StatusIs(absl::StatusCode::kUnimplemented)) << "films";
}

TEST(SerialFactoriesTest, CreatesTheMetricEvaluator) {
  FakePolicy policy;
  const ActionAccuracy accuracy;
  EvalDataInMemory none({});
  MetricEvaluatorConfig config;
  (*config.mutable_stop_value())["accuracy"] = 0.9;
  EXPECT_THAT(create_metric_evaluator(config, &none, &accuracy, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no batches")));
  const SpecPtr action = MakeSpec({Discrete("action", 4)}).value();
  DING_ASSERT_OK_AND_ASSIGN(BatchBuilder rows, BatchBuilder::Create(action, 1));
  rows.column<int64_t>(0)[0] = 0;
  const Batch batch = std::move(rows).Seal(1);
  EvalDataInMemory data({{batch, batch}});
  DING_ASSERT_OK_AND_ASSIGN(
      const auto evaluator,
      create_metric_evaluator(config, &data, &accuracy, &policy, ComponentDeps()));
  EvalOptions options;
  options.train_iter = 1;
  DING_ASSERT_OK_AND_ASSIGN(const MetricEvalResult result, evaluator->Eval(options));
  EXPECT_TRUE(result.stop);
}

TEST(SerialFactoriesTest, CreatesTheDefaultEvaluator) {
  FakeEnvManager envs({});
  FakePolicy policy;
  SerialEvaluatorConfig config;
  config.set_eval_freq(7);
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            create_serial_evaluator(config, &envs, &policy, ComponentDeps()));
  EXPECT_TRUE(evaluator->ShouldEval(0));
  EXPECT_FALSE(evaluator->ShouldEval(6));
  EXPECT_TRUE(evaluator->ShouldEval(7));
  EXPECT_THAT(evaluator->Eval({}), IsOk());
}

TEST(SerialFactoriesTest, ReportsAllProblemsAtOnce) {
  FakeEnvManager envs({});
  FakePolicy policy;
  SerialCollectorConfig collector;
  collector.set_collect_print_freq(0);
  collector.set_max_abnormal(-1);
  EXPECT_THAT(
      create_serial_collector(collector, &envs, &policy, ComponentDeps()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("collect_print_freq is 0"), HasSubstr("max_abnormal is -1"))));
  SerialEvaluatorConfig evaluator;
  evaluator.set_eval_freq(0);
  evaluator.set_n_episode(0);
  EXPECT_THAT(create_serial_evaluator(evaluator, &envs, &policy, ComponentDeps()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("eval_freq is 0"), HasSubstr("n_episode is 0"))));
}

}  // namespace
}  // namespace ding
