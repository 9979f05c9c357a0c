// Tests of collectors in envs whose rewards have several components: every row against a recorder
// in the envs, and what is refused.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collectors.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/objectives_env.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr int kEnvs = 3;
constexpr int64_t kComponents = 3;

struct Recorded {
  std::vector<float> obs;
  int64_t action;
  std::vector<float> reward;
  std::vector<float> next_obs;
  SegmentEnd end;  // kCut: the episode goes on
};

// Records the steps of another env.
class Recorder : public Env {
 public:
  Recorder(std::unique_ptr<Env> env, std::vector<Recorded>* log)
      : env_(std::move(env)), log_(log) {}

  const EnvSpec& spec() const override { return env_->spec(); }
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    DING_RETURN_IF_ERROR(env_->Reset(start, obs));
    last_ = Values(obs);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    DING_RETURN_IF_ERROR(env_->Step(action, obs, result));
    const SegmentEnd end = result->terminated  ? SegmentEnd::kTerminated
                           : result->truncated ? SegmentEnd::kTruncated
                                               : SegmentEnd::kCut;
    log_->push_back(
        {last_, action.scalar<int64_t>(0), result->reward_components, Values(obs), end});
    last_ = Values(obs);
    return absl::OkStatus();
  }

 private:
  static std::vector<float> Values(const RowRef& obs) {
    const absl::Span<const float> values = obs.field<float>(0);
    return {values.begin(), values.end()};
  }

  const std::unique_ptr<Env> env_;
  std::vector<Recorded>* const log_;
  std::vector<float> last_;
};

std::unique_ptr<BaseEnvManager> Envs(std::vector<std::vector<Recorded>>* logs,
                                     const Shape& shape = {kComponents}) {
  logs->resize(kEnvs);
  std::vector<EnvFactory> factories;
  for (std::vector<Recorded>& log : *logs) {
    factories.push_back([&log, shape]() -> absl::StatusOr<std::unique_ptr<Env>> {
      return std::make_unique<Recorder>(std::make_unique<ObjectivesEnv>(shape), &log);
    });
  }
  return *BaseEnvManager::Create({}, std::move(factories));
}

CollectAttributes TakesComponents() {
  CollectAttributes attributes;
  attributes.reward_components = true;
  return attributes;
}

std::vector<float> RowOf(const Batch& batch, const std::string& column, int64_t row,
                         int64_t width) {
  const absl::Span<const float> values = batch.column<float>(column).subspan(
      static_cast<size_t>(row * width), static_cast<size_t>(width));
  return {values.begin(), values.end()};
}

// Checks segments against the next records of their envs; `next` counts the records per env.
void ExpectRecorded(const SegmentBatch& data, const std::vector<std::vector<Recorded>>& logs,
                    float reward_factor, std::vector<size_t>* next) {
  ASSERT_THAT(ValidateSegments(data), IsOk());
  EXPECT_EQ(data.rows.spec().field(*data.rows.spec().Find("reward")), Box("reward", {kComponents}));
  for (size_t i = 0; i < data.segments.size(); ++i) {
    const Segment& segment = data.segments[i];
    const auto env = static_cast<size_t>(segment.stream);
    const Recorded* last = nullptr;
    for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
      ASSERT_LT((*next)[env], logs[env].size());
      last = &logs[env][(*next)[env]++];
      EXPECT_EQ(RowOf(data.rows, "obs", row, 2), last->obs);
      EXPECT_EQ(data.rows.column<int64_t>("action")[row], last->action);
      std::vector<float> expected = last->reward;
      for (float& reward : expected) reward *= reward_factor;
      EXPECT_EQ(RowOf(data.rows, "reward", row, kComponents), expected);
    }
    EXPECT_EQ(segment.end, last->end);
    EXPECT_EQ(RowOf(data.final_obs, "obs", static_cast<int64_t>(i), 2), last->next_obs);
  }
}

TEST(RewardComponentsTest, RowsOfSamplesAreThoseOfTheEnvs) {
  std::vector<std::vector<Recorded>> logs;
  const auto envs = Envs(&logs);
  FakePolicy policy(TakesComponents(), /*action_count=*/2);
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, envs.get(), &policy, {}));
  std::vector<size_t> next(kEnvs, 0);
  for (int i = 0; i < 15; ++i) {
    SCOPED_TRACE(absl::StrCat("collect ", i));
    CollectOptions options;
    options.target = 1 + 5 * (i % 4);
    options.drop_extra = false;
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
    ExpectRecorded(data, logs, 1, &next);
    if (HasFailure()) return;
  }
  for (size_t env = 0; env < kEnvs; ++env) EXPECT_EQ(next[env], logs[env].size());
}

TEST(RewardComponentsTest, AShapingSeesAndChangesAllComponents) {
  std::vector<std::vector<Recorded>> logs;
  const auto envs = Envs(&logs);
  FakePolicy policy(TakesComponents(), /*action_count=*/2);
  EpisodeSerialCollector::Options shaped;
  shaped.reward_shaping = [](int /*env_id*/, const ColumnsView& rows, absl::Span<float> rewards) {
    if (static_cast<int64_t>(rewards.size()) != rows.rows() * kComponents) {
      return absl::InternalError(absl::StrCat(rewards.size(), " rewards"));
    }
    for (float& reward : rewards) reward *= 2;
    return absl::OkStatus();
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            EpisodeSerialCollector::Create(shaped, envs.get(), &policy, {}));
  CollectOptions options;
  options.target = 12;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
  EXPECT_EQ(data.segments.size(), 12);
  std::vector<size_t> next(kEnvs, 0);
  ExpectRecorded(data, logs, 2, &next);
}

TEST(RewardComponentsTest, ASavedCollectorContinuesByteForByte) {
  CollectAttributes whole = TakesComponents();
  whole.traj_len_inf = true;
  const auto factories = std::vector<EnvFactory>(kEnvs, ObjectivesEnv::Factory({kComponents}));
  const auto envs = *BaseEnvManager::Create({}, factories);
  FakePolicy policy(whole, /*action_count=*/2);
  // Rows of running episodes wait in it.
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, envs.get(), &policy, {}));
  CollectOptions options;
  options.target = 10;
  ASSERT_THAT(collector->Collect(options), IsOk());
  StateDict state;
  {
    ScopedStateWriter of_envs(&state, "envs");
    ASSERT_THAT(envs->SaveState(&of_envs), IsOk());
    ScopedStateWriter of_collector(&state, "collector");
    ASSERT_THAT(collector->SaveState(&of_collector), IsOk());
  }
  const auto envs_again = *BaseEnvManager::Create({}, factories);
  FakePolicy policy_again(whole, /*action_count=*/2);
  policy_again.rows = policy.rows;
  DING_ASSERT_OK_AND_ASSIGN(const auto again,
                            SampleSerialCollector::Create({}, envs_again.get(), &policy_again, {}));
  ScopedStateReader of_envs(&state, "envs");
  std::vector<int> restarted;
  ASSERT_THAT(envs_again->LoadState(&of_envs, &restarted), IsOk());
  ASSERT_TRUE(restarted.empty());
  ScopedStateReader of_collector(&state, "collector");
  ASSERT_THAT(again->LoadState(&of_collector), IsOk());
  for (int i = 0; i < 5; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch expected, collector->Collect(options));
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, again->Collect(options));
    ASSERT_EQ(data.size(), expected.size());
    EXPECT_EQ(data.rows.column<float>("reward"), expected.rows.column<float>("reward"));
    EXPECT_EQ(data.rows.column<float>("obs"), expected.rows.column<float>("obs"));
  }
}

TEST(RewardComponentsTest, AParallelCollectorSendsThem) {
  std::vector<std::vector<Recorded>> logs;
  const auto envs = Envs(&logs);
  CollectAttributes attributes = TakesComponents();
  attributes.n_sample = 2;
  FakePolicy policy(attributes, /*action_count=*/2);
  FakeLink link;
  link.Publish(0, std::make_shared<StateDict>());
  ParallelCollectorParts parts;
  parts.env = envs.get();
  parts.collect_mode = &policy;
  parts.link = &link;
  parts.episodes_per_env = 5;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            ZerglingParallelCollector::Create({}, {}, parts, {}));
  ASSERT_THAT(collector->Run(), IsOk());
  std::vector<size_t> next(kEnvs, 0);
  double rewards = 0;
  for (const FakeLink::Sent& sent : link.sent()) {
    ExpectRecorded(sent.data, logs, 1, &next);
    for (const float reward : sent.data.rows.column<float>("reward")) rewards += reward;
  }
  double returns = 0;
  for (const double value : collector->GetFinishInfo().episode_return) returns += value;
  EXPECT_NEAR(returns, rewards, 1e-3) << "the returns are sums of all components";
}

TEST(RewardComponentsTest, APolicyOfOneRewardIsRefused) {
  std::vector<std::vector<Recorded>> logs;
  const auto envs = Envs(&logs);
  FakePolicy policy({}, /*action_count=*/2);
  EXPECT_THAT(
      SampleSerialCollector::Create({}, envs.get(), &policy, {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("the policy learns from one reward per step, but the reward of env "
                         "'Objectives' is float32[3]: set env.reward_weights "
                         "(MakeWeightedReward()) to make one of its 3 components")));
  EXPECT_TRUE(envs->closed()) << "it was launched before the refusal";
  const auto one_reward = Envs(&logs, {});
  EXPECT_THAT(SampleSerialCollector::Create({}, one_reward.get(), &policy, {}), IsOk());
}

// Evaluations need no rewards that a policy understands.
TEST(RewardComponentsTest, AnEvaluationReportsTheSumAndEachComponent) {
  std::vector<std::vector<Recorded>> logs;
  const auto envs = Envs(&logs);
  FakePolicy policy({}, /*action_count=*/2);
  const auto sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  deps.metrics = sink;
  deps.name = "evaluator";
  InteractionSerialEvaluator::Options options;
  options.n_episode = kEnvs;  // one of each env
  DING_ASSERT_OK_AND_ASSIGN(const auto evaluator,
                            InteractionSerialEvaluator::Create(options, envs.get(), &policy, deps));
  DING_ASSERT_OK_AND_ASSIGN(const EvalResult result, evaluator->Eval({}));
  std::vector<double> means(kComponents, 0);
  for (const std::vector<Recorded>& log : logs) {
    for (const Recorded& step : log) {
      for (int64_t c = 0; c < kComponents; ++c) means[c] += step.reward[c] / kEnvs;
      if (step.end != SegmentEnd::kCut) break;
    }
  }
  EXPECT_NEAR(result.mean_return, means[0] + means[1] + means[2], 1e-5);
  for (int64_t c = 0; c < kComponents; ++c) {
    const std::vector<double> written =
        sink->ValuesOf(absl::StrCat("evaluator_iter/return_", c, "_mean"));
    ASSERT_EQ(written.size(), 1);
    EXPECT_NEAR(written[0], means[c], 1e-5);
  }
}

}  // namespace
}  // namespace ding
