#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/core/reward_shaping.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/parallel/parallel_collectors.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/testing/chaos_env.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using Options = ZerglingParallelCollector::Options;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Fixture {
  explicit Fixture(FakeEnvManager::Options env_options = {},
                   const CollectAttributes& attributes = Samples(12))
      : envs(std::move(env_options)), policy(attributes) {
    deps.metrics = sink;
    deps.clock = &clock;
    deps.name = "zergling-7";
    link.Publish(0, AModel());
    parts = {&envs, &policy, &policy, &link, 3};
  }

  ZerglingParallelCollector& Create() {
    absl::StatusOr<std::unique_ptr<ZerglingParallelCollector>> created =
        ZerglingParallelCollector::Create(options, task, parts, deps);
    EXPECT_THAT(created, IsOk());
    collector = *std::move(created);
    return *collector;
  }

  SimulatedClock clock;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  FakeLink link;
  FakeEnvManager envs;
  FakePolicy policy;
  ParallelCollectorParts parts;
  ParallelCollectorTask task;
  Options options;
  std::unique_ptr<ZerglingParallelCollector> collector;
};

struct Case {
  CollectAttributes attributes;
  bool late;            // envs answer later than they are asked
  int64_t episode_num;  // of the env manager; 0: it goes on for ever
};

class Quotas : public testing::TestWithParam<Case> {};

TEST_P(Quotas, PlaysAllEpisodesAndSendsEveryRowOnce) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    FakeEnvManager::Options envs;
    envs.env_num = 4;
    envs.seed = seed;
    envs.subsets = envs.late = GetParam().late;
    envs.episode_num = GetParam().episode_num;
    envs.script = FakeEnvManager::RandomScript(seed, 9, 0);
    Fixture f(envs, GetParam().attributes);
    f.task.stream_base = 100;
    ASSERT_THAT(f.Create().Run(), IsOk());

    std::multiset<RowName> played;
    std::map<int, int64_t> episodes;
    for (const FakeEnvManager::Event& event : f.envs.events()) {
      played.insert(event.obs);
      if (event.terminated || event.truncated) ++episodes[event.env_id];
    }
    EXPECT_THAT(episodes, SizeIs(4));
    for (const auto& [env_id, count] : episodes) EXPECT_EQ(count, 3) << env_id;
    EXPECT_EQ(RowsSent(f.link), played);

    const std::vector<FakeLink::Sent> sent = f.link.sent();
    for (size_t i = 0; i < sent.size(); ++i) {
      for (const Segment& segment : sent[i].data.segments) {
        EXPECT_GE(segment.stream, 100);
        if (GetParam().attributes.n_episode.has_value()) {
          EXPECT_NE(segment.end, SegmentEnd::kCut);
        }
      }
      // After 16 rows, a further vector step of 4 envs is too many.
      if (GetParam().attributes.n_sample.has_value()) {
        EXPECT_LT(sent[i].data.size(), 20);
        if (i + 1 < sent.size()) {
          EXPECT_GE(sent[i].data.size(), 16);
        }
      }
    }
    const int64_t steps = static_cast<int64_t>(played.size());
    const CollectorFinishInfo info = f.collector->GetFinishInfo();
    EXPECT_TRUE(info.collector_done);
    EXPECT_FALSE(info.eval_flag);
    EXPECT_EQ(info.env_num, 4);
    EXPECT_EQ(info.predefined_episode_count, 12);
    EXPECT_THAT(info.episode_return, SizeIs(12));
    EXPECT_EQ(info.step_count, steps);
    EXPECT_EQ(info.sample_count, steps);
    EXPECT_EQ(info.policy_version, 1u);
    EXPECT_EQ(info.train_iter, 0);
    ASSERT_FALSE(sent.empty());
    EXPECT_EQ(sent.back().progress.cur_episode, 12);
    EXPECT_EQ(sent.back().progress.cur_sample, steps);
    EXPECT_EQ(sent.back().progress.cur_step, steps);
    EXPECT_TRUE(f.envs.closed());
  }
}

INSTANTIATE_TEST_SUITE_P(Collectors, Quotas,
                         testing::Values(Case{Samples(16), false, 0}, Case{Samples(16), false, 3},
                                         Case{Samples(16), true, 0}, Case{Samples(16), true, 3},
                                         Case{Episodes(), false, 0}, Case{Episodes(), true, 3}));

// As in a serial run, so that the episodes that end first are not preferred.
TEST(ZerglingParallelCollectorTest, OnPolicy_OnlyTheEpisodesThatAreSentTogetherAreBegun) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    FakeEnvManager::Options envs;
    envs.env_num = 4;
    envs.seed = seed;
    envs.subsets = true;
    envs.script = FakeEnvManager::RandomScript(seed, 9, 0);
    CollectAttributes attributes;
    attributes.on_policy = true;
    attributes.n_episode = 5;
    Fixture f(envs, attributes);
    ASSERT_THAT(f.Create().Run(), IsOk());
    std::vector<size_t> episodes;
    for (const FakeLink::Sent& sent : f.link.sent()) {
      episodes.push_back(sent.data.segments.size());
      for (const Segment& segment : sent.data.segments) EXPECT_NE(segment.end, SegmentEnd::kCut);
    }
    EXPECT_THAT(episodes, testing::ElementsAre(5, 5, 2));
  }
}

TEST(ZerglingParallelCollectorTest, DropsUnsentRowsOfAbnormalEpisodes) {
  FakeEnvManager::Options envs;
  envs.script = FakeEnvManager::RandomScript(3, 9, 0.2);
  Fixture f(envs, Episodes());
  ASSERT_THAT(f.Create().Run(), IsOk());
  std::map<std::pair<int, float>, FakeEnvManager::End> ends;
  int64_t abnormal = 0;
  int64_t steps = 0;
  for (const FakeEnvManager::Event& event : f.envs.events()) {
    abnormal += event.abnormal ? 1 : 0;
    steps += event.abnormal ? 0 : 1;
    if (event.abnormal) ends[{event.env_id, event.obs[1]}] = FakeEnvManager::End::kAbnormal;
  }
  ASSERT_GT(abnormal, 0);
  const std::multiset<RowName> rows = RowsSent(f.link);
  for (const RowName& row : rows) {
    EXPECT_EQ(ends.count({static_cast<int>(row[0]), row[1]}), 0u);
  }
  const CollectorFinishInfo info = f.collector->GetFinishInfo();
  EXPECT_THAT(info.episode_return, SizeIs(9));
  EXPECT_EQ(info.step_count, steps);
  EXPECT_EQ(info.abnormal_episode_count, abnormal);
  EXPECT_EQ(info.sample_count, static_cast<int64_t>(rows.size()));
  EXPECT_LT(info.sample_count, steps);
}

TEST(ZerglingParallelCollectorTest, RowsHaveTheVersionOfThePolicyThatActed) {
  Fixture f({}, Samples(12));
  f.task.collect_setting = {{"eps", 0.25}};
  // A new version before every second vector step; row n is the n-th that the policy filled.
  std::vector<int64_t> acted;
  int64_t loaded = 0;
  f.policy.on_load_model = [&](StateReader* reader) -> absl::Status {
    absl::StatusOr<int64_t> iter = reader->ReadInt("train_iter");
    if (iter.ok()) loaded = *iter;
    return iter.status();
  };
  const auto publish = [&](int64_t train_iter) {
    auto model = std::make_shared<StateDict>();
    EXPECT_THAT(model->WriteInt("train_iter", train_iter), IsOk());
    f.link.Publish(train_iter, model);
  };
  publish(70);
  f.policy.on_forward = [&](absl::Span<const int> env_ids) {
    for (size_t i = 0; i < env_ids.size(); ++i) acted.push_back(loaded);
    if ((acted.size() / 3) % 2 == 0) publish(loaded + 10);
    return absl::OkStatus();
  };
  ASSERT_THAT(f.Create().Run(), IsOk());
  std::set<int64_t> iters;
  int64_t mixed = 0;
  for (const FakeLink::Sent& sent : f.link.sent()) {
    const absl::Span<const int64_t> iter = sent.data.rows.column<int64_t>("collect_iter");
    const absl::Span<const float> logit = sent.data.rows.column<float>("logit");
    std::set<int64_t> of_this;
    for (size_t i = 0; i < iter.size(); ++i) {
      EXPECT_EQ(iter[i], acted[static_cast<size_t>(logit[2 * i + 1])]);
      of_this.insert(iter[i]);
    }
    mixed += of_this.size() > 1 ? 1 : 0;
    iters.insert(of_this.begin(), of_this.end());
  }
  EXPECT_GT(mixed, 0);
  EXPECT_GT(iters.size(), 3u);
  EXPECT_EQ(*iters.begin(), 70);
  EXPECT_EQ(f.collector->GetFinishInfo().train_iter, loaded);
  EXPECT_EQ(f.policy.last_settings.GetOr("eps", 0), 0.25);
}

TEST(ZerglingParallelCollectorTest, TensorsOfTheTask_ReachThePolicyThatTakesThem) {
  for (const bool eval : {false, true}) {
    Fixture f;
    f.task.eval_flag = eval;
    f.task.collect_setting = {{"eps", 0.25}};
    f.task.collect_tensors.Set("goal", Tensor::FromSpan<float>({2}, {0.5f, -1}));
    f.policy.on_forward = [&](absl::Span<const int>) {
      std::array<float, 2> goal;
      return StateDict(f.policy.last_tensors, "the task")
          .ReadSpan<float>("goal", absl::MakeSpan(goal));
    };
    EXPECT_THAT(f.Create().Run(), IsOk());
    EXPECT_EQ(f.policy.last_tensors.size(), 1u);
    EXPECT_EQ(f.policy.last_settings.GetOr("eps", 0), 0.25);
  }
}

TEST(ZerglingParallelCollectorTest, ChecksForAPolicyAtItsPeriod) {
  Fixture f;
  int64_t steps = 0;
  f.policy.on_forward = [&](absl::Span<const int>) {
    ++steps;
    f.clock.Advance(absl::Milliseconds(500));
    return absl::OkStatus();
  };
  f.options.update_policy_period = absl::Seconds(1);
  ASSERT_THAT(f.Create().Run(), IsOk());
  ASSERT_EQ(steps, 9);
  // It checks at the beginning and before steps 2, 4, 6 and 8.
  EXPECT_EQ(f.link.looks(), 5);
}

TEST(ZerglingParallelCollectorTest, WritesAverages) {
  Fixture f;
  f.options.print_freq = 2;
  f.parts.episodes_per_env = 100;
  f.policy.on_forward = [&](absl::Span<const int>) {
    f.clock.Advance(absl::Seconds(1));
    return absl::OkStatus();
  };
  ASSERT_THAT(f.Create().Run(), IsOk());
  std::map<std::string, std::vector<double>> values;
  for (const auto& record : f.sink->scalars()) values[record.tag].push_back(record.value);
  // 75 sends of 4 vector steps each.
  EXPECT_THAT(f.link.sent(), SizeIs(75));
  EXPECT_THAT(values["zergling-7_iter/policy_time"], AllOf(SizeIs(37), Each(1)));
  EXPECT_THAT(values["zergling-7_iter/env_time"], AllOf(SizeIs(37), Each(0)));
  // Float32 [3] twice (final_obs is a third or a half of the rows), [2], reward, two int64.
  for (const double bytes : values["zergling-7_iter/payload_bytes"]) {
    EXPECT_GT(bytes, 12 + 8 + 4 + 8 + 8);
    EXPECT_LT(bytes, 12 + 8 + 4 + 8 + 8 + 12);
  }
}

TEST(ZerglingParallelCollectorTest, LimitsTheRateOfLogLines) {
  Fixture f;
  f.options.print_freq = 1;
  f.parts.episodes_per_env = 100;
  f.policy.on_forward = [&](absl::Span<const int>) {
    f.clock.Advance(absl::Milliseconds(10));
    return absl::OkStatus();
  };
  ASSERT_THAT(f.Create().Run(), IsOk());
  EXPECT_THAT(f.sink->scalars(), IsEmpty());
}

TEST(ZerglingParallelCollectorTest, CloseEndsRunWithinAVectorStep) {
  for (int64_t steps = 1; steps < 9; ++steps) {
    SCOPED_TRACE(steps);
    Fixture f;
    int64_t forwards = 0;
    f.policy.on_forward = [&](absl::Span<const int>) {
      if (++forwards == steps) f.collector->Close();
      return absl::OkStatus();
    };
    ASSERT_THAT(f.Create().Run(), IsOk());
    EXPECT_EQ(forwards, steps);
    const CollectorFinishInfo info = f.collector->GetFinishInfo();
    EXPECT_FALSE(info.collector_done);
    EXPECT_EQ(info.step_count, 3 * steps);
    EXPECT_EQ(info.sample_count, static_cast<int64_t>(RowsSent(f.link).size()));
    EXPECT_TRUE(f.envs.closed());
  }
}

TEST(ZerglingParallelCollectorTest, CloseEndsTheWaitForAPolicy) {
  for (const bool eval : {false, true}) {
    Fixture f;
    FakeLink silent;
    f.parts.link = &silent;
    f.task.eval_flag = eval;
    ZerglingParallelCollector& collector = f.Create();
    std::thread closer([&] {
      while (silent.looks() < 2) std::this_thread::yield();
      collector.Close();
    });
    EXPECT_THAT(collector.Run(), IsOk());
    closer.join();
    const CollectorFinishInfo info = collector.GetFinishInfo();
    EXPECT_FALSE(info.collector_done);
    EXPECT_EQ(info.policy_version, 0u);
    EXPECT_EQ(info.train_iter, -1);
    EXPECT_EQ(info.step_count, 0);
    EXPECT_EQ(f.envs.launches(), 0);
  }
}

TEST(ZerglingParallelCollectorTest, AClosedLinkEndsRunWithoutAnError) {
  for (const bool sending : {true, false}) {
    Fixture f;
    (sending ? f.link.on_send_data : f.link.on_get_policy_update) = [] {
      return absl::CancelledError("closing");
    };
    EXPECT_THAT(f.Create().Run(), IsOk());
    EXPECT_FALSE(f.collector->GetFinishInfo().collector_done);
    EXPECT_EQ(f.collector->GetFinishInfo().sample_count, 0);
    EXPECT_EQ(f.collector->GetFinishInfo().step_count, sending ? 12 : 0);
  }
}

TEST(ZerglingParallelCollectorTest, ErrorsNameTheFailedPart) {
  {
    Fixture f;
    f.link.on_send_data = [] { return absl::DataLossError("store full"); };
    EXPECT_THAT(f.Create().Run(),
                StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("zergling-7: store full"))));
    EXPECT_EQ(f.collector->GetFinishInfo().sample_count, 0);
    EXPECT_TRUE(f.envs.closed());
    EXPECT_THAT(f.collector->Run(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("zergling-7: Run() has been called")));
  }
  {
    Fixture f;
    f.link.on_get_policy_update = [] { return absl::DataLossError("bad checksum"); };
    EXPECT_THAT(f.Create().Run(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("zergling-7: bad checksum")));
  }
  {
    Fixture f;
    f.policy.on_load_model = [](StateReader*) { return absl::InvalidArgumentError("no bias"); };
    EXPECT_THAT(f.Create().Run(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("zergling-7: policy version 1: policy: no bias")));
  }
  {
    // The quota of the env manager is lower than that of the task.
    FakeEnvManager::Options envs;
    envs.episode_num = 2;
    Fixture f(envs);
    EXPECT_THAT(f.Create().Run(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("zergling-7: ")));
  }
}

TEST(ZerglingParallelCollectorTest, NamesAnEnvThatKeepsDying) {
  std::vector<EnvFactory> factories;
  for (int i = 0; i < 2; ++i) {
    ChaosConfig chaos;
    chaos.set_fault(i == 1 ? ChaosConfig::ABORT : ChaosConfig::NONE);
    chaos.set_at_step(2);
    chaos.set_last_words("the bridge is out");
    factories.push_back([chaos] { return CreateChaosEnv(chaos); });
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto envs, CreateSubprocessEnvManager({}, factories));
  Fixture f;
  FakePolicy policy(Samples(100), 2);
  f.parts.env = envs.get();
  f.parts.collect_mode = &policy;
  f.options.max_abnormal = 2;
  EXPECT_THAT(f.Create().Run(), StatusIs(absl::StatusCode::kResourceExhausted,
                                         AllOf(HasSubstr("zergling-7"), HasSubstr("env 1"),
                                               HasSubstr("the bridge is out"))));
}

absl::Status OnlyTheLastCounts(int /*env_id*/, const ColumnsView& rows, absl::Span<float> rewards) {
  std::fill(rewards.begin(), rewards.end(), 0.0f);
  rewards.back() = static_cast<float>(rows.rows());
  return absl::OkStatus();
}
DING_REGISTER(RewardShapingRegistry(), "zergling_only_the_last", OnlyTheLastCounts,
              "sets all rewards but the last of an episode to 0");

TEST(ZerglingParallelCollectorTest, ReshapesTheRewardsOfWholeEpisodes) {
  Fixture f;
  f.options.reward_shaping = "zergling_only_the_last";
  ASSERT_THAT(f.Create().Run(), IsOk());
  int64_t rows = 0;
  for (const FakeLink::Sent& sent : f.link.sent()) {
    EXPECT_THAT(ValidateSegments(sent.data), IsOk());
    const absl::Span<const float> reward = sent.data.rows.column<float>("reward");
    for (const Segment& segment : sent.data.segments) {
      EXPECT_NE(segment.end, SegmentEnd::kCut);
      for (int64_t i = 0; i < segment.length; ++i) {
        EXPECT_EQ(reward[static_cast<size_t>(segment.begin + i)],
                  i + 1 == segment.length ? static_cast<float>(segment.length) : 0);
      }
      rows += segment.length;
    }
  }
  EXPECT_EQ(rows, f.collector->GetFinishInfo().step_count);
}

TEST(ZerglingParallelCollectorTest, RefusesARewardShapingThatIsNotThere) {
  Fixture f;
  f.options.reward_shaping = "of_nobody";
  EXPECT_THAT(ZerglingParallelCollector::Create(f.options, f.task, f.parts, f.deps),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("reward_shaping: "), HasSubstr("of_nobody"))));
}

// A policy with real parameters for CartPole.
absl::StatusOr<std::unique_ptr<Policy>> MakeDqn(const EnvSpec& env, uint64_t seed) {
  DqnConfig dqn;
  dqn.mutable_model()->add_encoder_hidden_size(8);
  PolicyConfig config;
  config.set_type("dqn");
  config.set_n_sample(64);
  config.mutable_params()->PackFrom(dqn);
  return create_policy(config, {env.observation, env.action, seed, PolicyModes()});
}

ParallelCollectorTask RandomActions() {
  ParallelCollectorTask task;
  task.collect_setting = {{"eps", 1}};
  return task;
}

std::vector<EnvFactory> CartPoles() {
  return std::vector<EnvFactory>(4, [] { return CreateCartPole("CartPole-v0", 200); });
}

TEST(ZerglingParallelCollectorTest, EvaluatesLikeTheSerialEvaluator) {
  DING_ASSERT_OK_AND_ASSIGN(const auto envs, BaseEnvManager::Create({}, CartPoles()));
  DING_ASSERT_OK_AND_ASSIGN(const auto learner, MakeDqn(envs->env_spec(), 1));
  ASSERT_THAT(envs->Seed(5, /*dynamic=*/false), IsOk());
  InteractionSerialEvaluator::Options options;
  options.n_episode = 12;
  EvalResult expected;
  {
    DING_ASSERT_OK_AND_ASSIGN(
        const auto evaluator,
        InteractionSerialEvaluator::Create(options, envs.get(), learner->eval_mode(), {}));
    DING_ASSERT_OK_AND_ASSIGN(expected, evaluator->Eval({}));
    envs->Close();
  }
  ASSERT_THAT(envs->Seed(5, /*dynamic=*/false), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, MakeDqn(envs->env_spec(), 2));
  auto model = std::make_shared<StateDict>();
  ASSERT_THAT(learner->learn_mode()->SaveModel(model.get()), IsOk());
  FakeLink link;
  link.Publish(40, model);
  ParallelCollectorTask task;
  task.eval_flag = true;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      ZerglingParallelCollector::Create({}, task,
                                        {envs.get(), nullptr, policy->eval_mode(), &link, 3}, {}));
  ASSERT_THAT(collector->Run(), IsOk());
  const CollectorFinishInfo info = collector->GetFinishInfo();
  EXPECT_TRUE(info.collector_done);
  EXPECT_TRUE(info.eval_flag);
  EXPECT_EQ(info.train_iter, 40);
  EXPECT_EQ(info.episode_return, expected.episode_return);
  EXPECT_EQ(info.step_count, expected.envstep_count);
  // The reward of a step is 1.
  EXPECT_EQ(static_cast<double>(info.step_count),
            std::accumulate(info.episode_return.begin(), info.episode_return.end(), 0.0));
  EXPECT_EQ(info.sample_count, 0);
  EXPECT_THAT(link.sent(), IsEmpty());
}

TEST(ZerglingParallelCollectorTest, CloseEndsAnEvaluationWithinAVectorStep) {
  Fixture f;
  f.task.eval_flag = true;
  int64_t forwards = 0;
  f.policy.on_forward = [&](absl::Span<const int>) {
    if (++forwards == 4) f.collector->Close();
    return absl::OkStatus();
  };
  ASSERT_THAT(f.Create().Run(), IsOk());
  EXPECT_EQ(forwards, 4);
  EXPECT_FALSE(f.collector->GetFinishInfo().collector_done);
}

TEST(ZerglingParallelCollectorTest, CollectsFromEnvsInThreadsWhilePoliciesCome) {
  AsyncThreadEnvManagerOptions options;
  options.wait_num = 2;
  options.num_threads = 2;
  options.episode_num = 20;
  DING_ASSERT_OK_AND_ASSIGN(const auto envs, CreateAsyncThreadEnvManager(options, CartPoles()));
  ASSERT_THAT(envs->Seed(0, /*dynamic=*/true), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto learner, MakeDqn(envs->env_spec(), 1));
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, MakeDqn(envs->env_spec(), 2));
  FakeLink link;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto collector,
      ZerglingParallelCollector::Create(
          {}, RandomActions(), {envs.get(), policy->collect_mode(), nullptr, &link, 20}, {}));
  std::atomic<bool> over{false};
  std::thread publisher([&] {
    for (int64_t iter = 0; !over; ++iter) {
      auto model = std::make_shared<StateDict>();
      EXPECT_THAT(learner->learn_mode()->SaveModel(model.get()), IsOk());
      link.Publish(iter, model);
      collector->GetFinishInfo();
      std::this_thread::yield();
    }
  });
  EXPECT_THAT(collector->Run(), IsOk());
  over = true;
  publisher.join();
  const CollectorFinishInfo info = collector->GetFinishInfo();
  EXPECT_TRUE(info.collector_done);
  EXPECT_THAT(info.episode_return, SizeIs(80));
  EXPECT_EQ(info.sample_count, info.step_count);
  int64_t rows = 0;
  int64_t iter = 0;
  for (const FakeLink::Sent& sent : link.sent()) {
    EXPECT_THAT(ValidateSegments(sent.data), IsOk());
    rows += sent.data.size();
    iter = std::max(iter, sent.data.rows.column<int64_t>("collect_iter").back());
  }
  EXPECT_EQ(rows, info.step_count);
  EXPECT_GT(iter, 0);
}

TEST(ZerglingParallelCollectorTest, AnyThreadMayCallCloseAtAnyTime) {
  for (int i = 0; i < 20; ++i) {
    SCOPED_TRACE(i);
    DING_ASSERT_OK_AND_ASSIGN(const auto envs, BaseEnvManager::Create({}, CartPoles()));
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, MakeDqn(envs->env_spec(), 2));
    auto model = std::make_shared<StateDict>();
    ASSERT_THAT(policy->learn_mode()->SaveModel(model.get()), IsOk());
    FakeLink link;
    link.Publish(0, model);
    DING_ASSERT_OK_AND_ASSIGN(
        const auto collector,
        ZerglingParallelCollector::Create(
            {}, RandomActions(), {envs.get(), policy->collect_mode(), nullptr, &link, 1000000},
            {}));
    std::atomic<bool> over{false};
    std::thread closer([&] {
      while (collector->GetFinishInfo().sample_count < 50 * i && !over) std::this_thread::yield();
      collector->Close();
      collector->Close();
    });
    EXPECT_THAT(collector->Run(), IsOk());
    over = true;
    closer.join();
    EXPECT_FALSE(collector->GetFinishInfo().collector_done);
  }
}

TEST(ParallelRegistryTest, CreatesTheConfiguredType) {
  Fixture f;
  ParallelCollectorConfig config;
  EXPECT_THAT(get_parallel_collector_cls(config), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            create_parallel_collector(config, f.task, f.parts, f.deps));
  EXPECT_THAT(collector->Run(), IsOk());
  EXPECT_TRUE(collector->GetFinishInfo().collector_done);
  config.set_type("hydralisk");
  EXPECT_THAT(
      create_parallel_collector(config, f.task, f.parts, f.deps),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("hydralisk"), HasSubstr("zergling"))));
}

TEST(ParallelRegistryTest, ReportsAllProblems) {
  ParallelCollectorConfig config;
  config.set_print_freq(0);
  config.set_update_policy_second(-1);
  config.set_max_abnormal(0);
  FakePolicy policy;
  ParallelCollectorParts parts;
  parts.collect_mode = &policy;
  parts.episodes_per_env = 0;
  EXPECT_THAT(
      create_parallel_collector(config, {}, parts, {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("collector: "), HasSubstr("print_freq is 0"),
                     HasSubstr("update_policy_second is -1"), HasSubstr("max_abnormal is 0"),
                     HasSubstr("no env manager"), HasSubstr("no link"),
                     HasSubstr("episodes_per_env is 0"), HasSubstr("neither n_sample"))));
  ParallelCollectorTask task;
  task.eval_flag = true;
  EXPECT_THAT(create_parallel_collector({}, task, {}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("evaluator: "), HasSubstr("no policy that evaluates"))));
}

}  // namespace
}  // namespace ding
