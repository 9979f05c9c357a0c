// Further tests; sample_serial_collector_exactness_test.cc compares the collected rows with a
// model.
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/random_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using End = FakeEnvManager::End;
using Episode = FakeEnvManager::Episode;
using Options = SampleSerialCollector::Options;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CollectAttributes WholeEpisodes() {
  CollectAttributes attributes;
  attributes.traj_len_inf = true;
  return attributes;
}

CollectOptions Rows(int64_t target, int64_t train_iter = 0) {
  CollectOptions options;
  options.target = target;
  options.train_iter = train_iter;
  return options;
}

struct Fixture : SerialParts {
  explicit Fixture(FakeEnvManager::Options env_options = {},
                   const CollectAttributes& attributes = {}, Options options = {})
      : SerialParts(std::move(env_options), attributes, "c"),
        collector(Make<SampleSerialCollector>(std::move(options))) {}

  std::unique_ptr<SampleSerialCollector> collector;
};

TEST(SampleSerialCollectorTest, CollectsExactlyTheTarget) {
  std::vector<EnvFactory> factories(8, [] { return CreateCartPole("CartPole-v0", 200); });
  DING_ASSERT_OK_AND_ASSIGN(const auto envs, BaseEnvManager::Create({}, factories));
  CollectAttributes attributes;
  attributes.n_sample = 1000;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            RandomCollectMode::Create(envs->env_spec().action, 0, attributes));
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, envs.get(), policy.get(), {}));
  for (const bool record : {true, false}) {
    CollectOptions options;
    options.record_episodes = record;
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
    EXPECT_EQ(data.size(), 1000);
    EXPECT_THAT(ValidateSegments(data), IsOk());
  }
  EXPECT_EQ(collector->envstep(), 2000);
}

TEST(SampleSerialCollectorTest, RefusesAMissingOrInvalidTarget) {
  Fixture f;
  EXPECT_THAT(f.collector->Collect({}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("n_sample")));
  EXPECT_THAT(f.collector->Collect(Rows(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 samples")));
  EXPECT_TRUE(f.envs.events().empty());
}

TEST(SampleSerialCollectorTest, ThePolicyWritesIntoTheReturnedRows) {
  Fixture f;
  for (int i = 0; i < 3; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Rows(3)));
    EXPECT_EQ(data.rows.column<int64_t>("action").data(), f.policy.last_actions);
  }
}

TEST(SampleSerialCollectorTest, KeepsExtraRowsOnRequest) {
  Fixture f;
  CollectOptions options = Rows(4);
  options.drop_extra = false;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(options));
  EXPECT_EQ(data.size(), 6);
  EXPECT_EQ(f.collector->total_train_sample_count(), 6);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch cut, f.collector->Collect(Rows(4)));
  EXPECT_EQ(cut.size(), 4);
  EXPECT_EQ(f.collector->total_train_sample_count(), 10);
  EXPECT_EQ(f.collector->envstep(), 12);
}

TEST(SampleSerialCollectorTest, CutsTheBeginningOfWholeEpisodes) {
  Fixture f(WithScript(1,
                       [](int, int64_t) {
                         return Episode{5, End::kTerminated};
                       }),
            WholeEpisodes());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Rows(3)));
  ASSERT_EQ(data.segments.size(), 1u);
  EXPECT_EQ(data.segments[0].end, SegmentEnd::kTerminated);
  EXPECT_THAT(data.rows.column<float>("reward"), ElementsAre(2, 3, 4));
}

TEST(SampleSerialCollectorTest, PassesSettingsAndTrainIter) {
  Fixture f;
  CollectOptions options = Rows(3, /*train_iter=*/17);
  options.policy_settings.Set("eps", 0.5);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(options));
  EXPECT_EQ(f.policy.last_settings.Get("eps"), 0.5);
  EXPECT_THAT(data.rows.column<int64_t>("collect_iter"), ElementsAre(17, 17, 17));
}

TEST(SampleSerialCollectorTest, ReturnsTheTrainSamplesOfThePolicy) {
  Fixture f;
  f.policy.on_train_sample = [](SegmentBatch* data) { data->segments[0].stream = 77; };
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Rows(3)));
  EXPECT_EQ(data.segments[0].stream, 77);
}

TEST(SampleSerialCollectorTest, StoresLevelSeedsInTheRows) {
  Fixture f;
  CollectOptions options = Rows(6);
  options.level_seeds = {10, 11, 12};
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(options));
  ASSERT_THAT(ValidateSegments(data), IsOk());
  for (const Segment& segment : data.segments) {
    for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
      EXPECT_EQ(data.rows.column<int64_t>("level_seed")[row], 10 + segment.stream);
    }
  }
  // Without level seeds, streams continue.
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch next, f.collector->Collect(Rows(3)));
  EXPECT_FALSE(next.rows.spec().Find("level_seed").has_value());
  EXPECT_EQ(next.segments[0].first_step, 2);
  options.level_seeds = {1};
  EXPECT_THAT(f.collector->Collect(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 level seeds for 3 envs")));
}

TEST(SampleSerialCollectorTest, RefusesToChangeLevelSeedsWhileRowsWait) {
  Fixture f(WithScript(2,
                       [](int env_id, int64_t) {
                         return Episode{2 + 9 * env_id, End::kTerminated};
                       }),
            WholeEpisodes());
  ASSERT_THAT(f.collector->Collect(Rows(2)), IsOk());
  CollectOptions options = Rows(2);
  options.level_seeds = {1, 2};
  EXPECT_THAT(f.collector->Collect(options), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                      HasSubstr("2 rows of an earlier collect")));
  EXPECT_THAT(f.collector->Collect(Rows(2)), IsOk());
}

TEST(SampleSerialCollectorTest, ResetsThePolicyAtTheEndOfEpisodes) {
  Fixture f(WithScript(2, [](int env_id, int64_t episode) {
    return Episode{2 + env_id, episode == 0 && env_id == 0 ? End::kAbnormal : End::kTruncated};
  }));
  f.policy.resets.clear();
  ASSERT_THAT(f.collector->Collect(Rows(6)), IsOk());
  EXPECT_THAT(f.policy.resets, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0)));
}

TEST(SampleSerialCollectorTest, ContinuesAfterAbnormalSteps) {
  // One env is abnormal in its first four episodes.
  Fixture f(WithScript(4, [](int env_id, int64_t episode) {
    const bool abnormal = env_id == 2 && episode < 4;
    return Episode{3, abnormal ? End::kAbnormal : End::kTerminated};
  }));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Rows(80)));
  EXPECT_EQ(data.size(), 80);
  EXPECT_EQ(f.envs.ready_obs().env_ids.size(), 4u);
  for (int64_t row = 0; row < data.size(); ++row) {
    const float* const obs = data.rows.column<float>("obs").data() + 3 * row;
    EXPECT_FALSE(obs[0] == 2 && obs[1] < 4) << "a row of an abnormal episode";
  }
}

TEST(SampleSerialCollectorTest, NamesAnEnvThatStaysAbnormal) {
  // This holds also if each of its episodes begins with normal steps (D20).
  for (const int64_t length : {1, 4}) {
    Options options;
    options.max_abnormal = 5;
    Fixture f(WithScript(1,
                         [&](int, int64_t) {
                           return Episode{length, End::kAbnormal};
                         }),
              {}, options);
    EXPECT_THAT(f.collector->Collect(Rows(10)),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("c: env 0"), HasSubstr("5 times"))));
  }
  // An env with normal rows in between may continue.
  Options options;
  options.max_abnormal = 2;
  Fixture f(WithScript(1, [](int, int64_t) { return Episode{4, End::kAbnormal}; }), {}, options);
  for (int i = 0; i < 30; ++i) EXPECT_THAT(f.collector->Collect(Rows(1)), IsOk());
}

TEST(SampleSerialCollectorTest, ReturnsAnErrorForEnvsThatAreDone) {
  FakeEnvManager::Options env_options;
  env_options.episode_num = 1;
  Fixture f(env_options);
  EXPECT_THAT(f.collector->Collect(Rows(10)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("env 1 is DONE"), HasSubstr("episode_num"))));
}

TEST(SampleSerialCollectorTest, PolicyErrorsAndExceptionsNameThePolicy) {
  Fixture f;
  ASSERT_THAT(f.collector->Collect(Rows(3)), IsOk());
  f.policy.on_forward = [](absl::Span<const int>) { return absl::DataLossError("lost"); };
  EXPECT_THAT(f.collector->Collect(Rows(3)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("c: policy: lost")));
  f.policy.on_forward = [](absl::Span<const int>) -> absl::Status {
    throw std::runtime_error("thrown");
  };
  EXPECT_THAT(
      f.collector->Collect(Rows(3)),
      StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("policy"), HasSubstr("thrown"))));
  f.policy.on_forward = nullptr;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Rows(3)));
  EXPECT_GT(data.segments[0].first_step, 1) << "a link over rows that are missing";
}

TEST(SampleSerialCollectorTest, EnvErrorsNameTheEnvAndCanBeRecoveredFrom) {
  auto script = std::make_shared<ScriptedEnvScript>();
  script->on_step[4] = EnvFault::kThrow;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto envs,
      BaseEnvManager::Create({}, {ScriptedEnvFactory(script), ScriptedEnvFactory(script)}));
  FakePolicy policy({}, 2);
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, envs.get(), &policy, {}));
  EXPECT_THAT(collector->Collect(Rows(8)),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("env 1"), HasSubstr("scripted exception"))));
  EXPECT_THAT(collector->Collect(Rows(8)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("env 1 is ERROR")));
  ASSERT_THAT(collector->ResetEnv(nullptr), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(Rows(8)));
  ASSERT_THAT(ValidateSegments(data), IsOk());
  // Rows of the lost episodes are not among them.
  for (int64_t row = 0; row < data.size(); ++row) {
    EXPECT_GT(data.rows.column<float>("obs")[3 * row], 2);
  }
}

TEST(SampleSerialCollectorTest, ChecksItsConfiguration) {
  FakeEnvManager envs({});
  FakePolicy policy;
  Options bad;
  bad.collect_print_freq = 0;
  bad.max_abnormal = 0;
  EXPECT_THAT(SampleSerialCollector::Create(bad, nullptr, nullptr, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("collect_print_freq is 0"), HasSubstr("max_abnormal is 0"),
                             HasSubstr("no env manager"), HasSubstr("no policy"))));
  FakePolicy other({}, MakeSpec({Box("action", {2})}).value());
  EXPECT_THAT(
      SampleSerialCollector::Create({}, &envs, &other, {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("float32[2]"), HasSubstr("'Fake'"), HasSubstr("int64[] in 0..3"))));
  FakePolicy clash({}, MakeSpec({Discrete("action", 4), Box("reward", {1})}).value());
  EXPECT_THAT(SampleSerialCollector::Create({}, &envs, &clash, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("reward")));
  EXPECT_EQ(envs.launches(), 0);
}

TEST(SampleSerialCollectorTest, RefusesAPolicyThatDoesNotFit) {
  Fixture f;
  FakePolicy other({}, 7);
  EXPECT_THAT(f.collector->ResetPolicy(&other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("0..6"), HasSubstr("'Fake'"), HasSubstr("0..3"))));
  EXPECT_THAT(f.collector->Collect(Rows(3)), IsOk());
  EXPECT_EQ(other.rows, 0);
}

TEST(SampleSerialCollectorTest, AcceptsAnotherPolicyWithinAnEpisode) {
  Fixture f;
  FakePolicy plain({}, f.envs.env_spec().action);
  ASSERT_THAT(f.collector->ResetPolicy(&plain), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch first, f.collector->Collect(Rows(6)));
  EXPECT_FALSE(first.rows.spec().Find("logit").has_value());
  ASSERT_THAT(f.collector->ResetPolicy(&f.policy), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch second, f.collector->Collect(Rows(3)));
  EXPECT_TRUE(second.rows.spec().Find("logit").has_value());
  // The episodes continued, and the rows are linked.
  EXPECT_EQ(second.segments[0].first_step, 2);
  EXPECT_THAT(second.rows.column<float>("obs").subspan(0, 3), ElementsAre(0, 0, 2));
}

TEST(SampleSerialCollectorTest, ResetsCutTheStreams) {
  Fixture f;
  const auto first_step = [&] {
    const absl::StatusOr<SegmentBatch> data = f.collector->Collect(Rows(3));
    EXPECT_THAT(data, IsOk());
    return data->segments[0].first_step;
  };
  EXPECT_EQ(first_step(), 0);
  EXPECT_EQ(first_step(), 1);
  const int64_t rows_before = f.policy.rows;
  ASSERT_THAT(f.collector->ResetEnv(nullptr), IsOk());
  EXPECT_GT(first_step(), 2);
  EXPECT_EQ(f.policy.rows, rows_before + 3);

  int64_t before = first_step();
  ASSERT_THAT(f.collector->DropEpisodes({0}), IsOk());
  EXPECT_THAT(f.policy.resets.back(), ElementsAre(0));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Rows(3)));
  EXPECT_GT(data.segments[0].first_step, before + 1);
  EXPECT_EQ(data.segments[1].first_step, before + 1);
  EXPECT_THAT(f.collector->DropEpisodes({3}), StatusIs(absl::StatusCode::kInvalidArgument));

  f.collector->set_envstep(1000);
  EXPECT_EQ(first_step(), before + 2 + 1);
  EXPECT_EQ(f.collector->envstep(), 1003);
  ASSERT_THAT(f.collector->Reset(nullptr, nullptr), IsOk());
  EXPECT_EQ(f.collector->envstep(), 0);
  EXPECT_EQ(f.collector->total_episode_count(), 0);
  EXPECT_GT(first_step(), before + 4);
}

TEST(SampleSerialCollectorTest, AcceptsAnotherEnvManager) {
  Fixture f;
  ASSERT_THAT(f.collector->Collect(Rows(6)), IsOk());
  FakeEnvManager more(WithScript(5, nullptr));
  ASSERT_THAT(f.collector->ResetEnv(&more), IsOk());
  EXPECT_EQ(more.launches(), 1);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Rows(5)));
  EXPECT_EQ(data.segments.size(), 5u);
  EXPECT_GT(data.segments[0].first_step, 2);
  ASSERT_THAT(f.collector->ResetEnv(&more), IsOk());
  EXPECT_EQ(more.launches(), 1);
}

// Metrics.

// A clock that advances by 100 ms per call of the policy.
void Tick(Fixture* f) {
  f->policy.on_forward = [f](absl::Span<const int>) {
    f->clock.Advance(absl::Milliseconds(100));
    return absl::OkStatus();
  };
}

TEST(SampleSerialCollectorTest, AbnormalEpisodes_AreCounted) {
  Fixture f(WithScript(2, [](int env_id, int64_t episode) {
    const bool abnormal = env_id == 1 && episode < 3;
    return Episode{2, abnormal ? End::kAbnormal : End::kTerminated};
  }));
  ASSERT_THAT(f.collector->Collect(Rows(12, 100)), IsOk());
  ASSERT_THAT(f.collector->Collect(Rows(12, 200)), IsOk());
  EXPECT_THAT(f.sink->ValuesOf("c_iter/abnormal_episode_count"), ElementsAre(3, 0));
}

TEST(SampleSerialCollectorTest, WritesMetrics) {
  Fixture f(WithScript(2, [](int env_id, int64_t) {
    return Episode{2 + env_id, End::kTerminated};
  }));
  Tick(&f);
  ASSERT_THAT(f.collector->Collect(Rows(3, 50)), IsOk());
  EXPECT_THAT(f.sink->scalars(), IsEmpty()) << "too early";
  EXPECT_EQ(f.collector->recent_return(), 1) << "of the only episode";
  CollectOptions options = Rows(3, 100);
  options.policy_settings = {{"eps", 0.25}};
  ASSERT_THAT(f.collector->Collect(options), IsOk());
  EXPECT_NEAR(*f.collector->recent_return(), (1 + 3 + 201) / 3.0, 1e-9);
  // Four vector steps: env 0 finished two episodes of 2 steps, env 1 one of 3. The last row of each
  // collect was dropped: step 1 of env 1's first episode, and step 0 of its second one.
  const std::map<std::string, double> expected = {
      {"episode_count", 3},
      {"abnormal_episode_count", 0},
      {"envstep_count", 7},
      {"train_sample_count", 6},
      {"avg_envstep_per_episode", 7 / 3.0},
      {"avg_sample_per_episode", 2},
      {"avg_envstep_per_sec", 8 / 0.4},
      {"avg_train_sample_per_sec", 6 / 0.4},
      {"avg_episode_per_sec", 3 / 0.4},
      {"reward_mean", (1 + 3 + 201) / 3.0},
      {"reward_max", 201},
      {"reward_min", 1},
      {"eps", 0.25},
      {"total_envstep_count", 8},
      {"total_train_sample_count", 6},
      {"total_episode_count", 3},
  };
  for (const auto& [metric, value] : expected) {
    EXPECT_THAT(f.sink->ValuesOf("c_iter/" + metric), ElementsAre(testing::DoubleNear(value, 1e-9)))
        << metric;
    if (metric == "total_envstep_count") continue;
    EXPECT_THAT(f.sink->ValuesOf("c_step/" + metric), ElementsAre(testing::DoubleNear(value, 1e-9)))
        << metric;
  }
  EXPECT_EQ(f.sink->ScalarTags().size(), 2 * (expected.size() + 1) - 1);
  for (const RecordingSink::ScalarRecord& record : f.sink->scalars()) {
    EXPECT_EQ(record.step, record.tag.rfind("c_iter/", 0) == 0 ? 100 : 8) << record.tag;
  }
}

TEST(SampleSerialCollectorTest, LogsAtItsFrequency) {
  Options options;
  options.collect_print_freq = 10;
  Fixture f(WithScript(1, [](int, int64_t) { return Episode{1, End::kTerminated}; }), {}, options);
  for (int64_t iter = 0; iter <= 25; ++iter) {
    ASSERT_THAT(f.collector->Collect(Rows(1, iter)), IsOk());
  }
  EXPECT_THAT(f.sink->ValuesOf("c_iter/episode_count"), ElementsAre(11, 10));
}

TEST(SampleSerialCollectorTest, OnPolicyEpisodesKeepTheirStatistics) {
  // D18: an episode of 20 steps, over collects of 4.
  CollectAttributes on_policy;
  on_policy.on_policy = true;
  Options options;
  options.collect_print_freq = 1;
  Fixture f(WithScript(1,
                       [](int, int64_t) {
                         return Episode{20, End::kTerminated};
                       }),
            on_policy, options);
  for (int64_t iter = 1; iter <= 5; ++iter) {
    ASSERT_THAT(f.collector->Collect(Rows(4, iter)), IsOk());
  }
  EXPECT_THAT(f.sink->ValuesOf("c_iter/avg_envstep_per_episode"), ElementsAre(20));
  EXPECT_THAT(f.sink->ValuesOf("c_iter/avg_sample_per_episode"), ElementsAre(20));
}

TEST(SampleSerialCollectorTest, DoesNotLogEpisodesOfARandomPolicy) {
  Options options;
  options.collect_print_freq = 1;
  Fixture f(WithScript(1, [](int, int64_t) { return Episode{2, End::kTerminated}; }), {}, options);
  Tick(&f);
  CollectOptions random = Rows(10, 1);
  random.record_episodes = false;
  ASSERT_THAT(f.collector->Collect(random), IsOk());
  EXPECT_THAT(f.sink->scalars(), IsEmpty());
  ASSERT_THAT(f.collector->Collect(Rows(2, 2)), IsOk());
  EXPECT_THAT(f.sink->ValuesOf("c_iter/episode_count"), ElementsAre(1));
  EXPECT_THAT(f.sink->ValuesOf("c_iter/avg_envstep_per_sec"), ElementsAre(10));
  EXPECT_THAT(f.sink->ValuesOf("c_iter/total_episode_count"), ElementsAre(6));
}

// Resume.

struct Session : Fixture {
  explicit Session(const CollectAttributes& attributes)
      : Fixture(
            [] {
              FakeEnvManager::Options options =
                  WithScript(4, FakeEnvManager::RandomScript(3, 6, 0.1));
              options.subsets = true;
              return options;
            }(),
            attributes,
            [] {
              Options options;
              options.collect_print_freq = 7;
              return options;
            }()) {}
  StateDict Save() const { return SerialParts::Save(*collector); }
  void Load(StateDict* state) { SerialParts::Load(state, collector.get()); }
};

void ExpectSameState(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.Names(), b.Names());
  for (const std::string& name : a.Names()) {
    EXPECT_EQ(a.tensors().Find(name)->bytes(), b.tensors().Find(name)->bytes()) << name;
  }
}

TEST(SampleSerialCollectorTest, ResumesWithTheSameBytes) {
  for (const bool whole_episodes : {false, true}) {
    SCOPED_TRACE(absl::StrCat("whole episodes ", whole_episodes));
    CollectAttributes attributes;
    attributes.traj_len_inf = whole_episodes;
    Session straight(attributes);
    for (int64_t i = 0; i < 10; ++i) ASSERT_THAT(straight.collector->Collect(Rows(7, i)), IsOk());
    StateDict state = straight.Save();
    Session resumed(attributes);
    ASSERT_THAT(resumed.collector->Collect(Rows(3)), IsOk());
    resumed.Load(&state);
    ExpectSameState(resumed.Save(), state);
    const size_t logged = straight.sink->ValuesOf("c_iter/episode_count").size();
    for (int64_t i = 10; i < 30; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch a, straight.collector->Collect(Rows(7, i)));
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch b, resumed.collector->Collect(Rows(7, i)));
      ExpectSameData(a, b);
    }
    ExpectSameState(resumed.Save(), straight.Save());
    for (const char* const metric : {"episode_count", "train_sample_count", "reward_mean",
                                     "total_envstep_count", "total_train_sample_count"}) {
      std::vector<double> later = straight.sink->ValuesOf(absl::StrCat("c_iter/", metric));
      later.erase(later.begin(), later.begin() + static_cast<int64_t>(logged));
      EXPECT_GT(later.size(), 1u);
      EXPECT_EQ(resumed.sink->ValuesOf(absl::StrCat("c_iter/", metric)), later) << metric;
    }
  }
}

TEST(SampleSerialCollectorTest, SavesRowsOfAFailedCollect) {
  const auto fail_late = [](Session* session) {
    int calls = 0;
    session->policy.on_forward = [calls](absl::Span<const int>) mutable {
      return ++calls == 6 ? absl::AbortedError("enough") : absl::OkStatus();
    };
    EXPECT_THAT(session->collector->Collect(Rows(100)), StatusIs(absl::StatusCode::kAborted));
    session->policy.on_forward = nullptr;
  };
  for (const bool whole_episodes : {false, true}) {
    CollectAttributes attributes;
    attributes.traj_len_inf = whole_episodes;
    Session straight(attributes);
    fail_late(&straight);
    StateDict state = straight.Save();
    Session resumed(attributes);
    resumed.Load(&state);
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch a, straight.collector->Collect(Rows(40)));
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch b, resumed.collector->Collect(Rows(40)));
    ASSERT_THAT(ValidateSegments(a), IsOk());
    EXPECT_LT(straight.policy.rows, 6 * 4 + 40) << "the rows were collected anew";
    ExpectSameData(a, b);
  }
}

TEST(SampleSerialCollectorTest, AStateThatDoesNotFitChangesNothing) {
  Fixture three;
  ASSERT_THAT(three.collector->Collect(Rows(6)), IsOk());
  StateDict state;
  ASSERT_THAT(three.collector->SaveState(&state), IsOk());
  Fixture two(WithScript(2, nullptr));
  ASSERT_THAT(two.collector->Collect(Rows(2)), IsOk());
  EXPECT_THAT(two.collector->LoadState(&state),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected 2 elements")));
  EXPECT_EQ(two.collector->envstep(), 2);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, two.collector->Collect(Rows(2)));
  EXPECT_EQ(data.segments[0].first_step, 1);
}

TEST(SampleSerialCollectorTest, TrajLen_RowsAreReturnedByTrajectories) {
  FakeEnvManager envs(WithScript(3, nullptr));
  FakePolicy policy;
  Options options;
  options.traj_len = 2;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create(options, &envs, &policy, {}));
  CollectOptions all = Rows(1);
  all.drop_extra = false;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(all));
  EXPECT_EQ(collector->envstep(), 2 * 3) << "3 envs";
  ASSERT_EQ(data.segments.size(), 3u);
  for (const Segment& segment : data.segments) EXPECT_EQ(segment.length, 2);
  options.traj_len = 0;
  EXPECT_THAT(SampleSerialCollector::Create(options, &envs, &policy, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("traj_len) is 0")));
}

TEST(SampleSerialCollectorTest, RandomCollect_ActsWithoutThePolicy) {
  FakeEnvManager envs(WithScript(3, nullptr));
  FakePolicy policy({}, envs.env_spec().action);
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            SampleSerialCollector::Create({}, &envs, &policy, {}));
  CollectOptions random = Rows(12);
  random.random_collect = true;
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(random));
  EXPECT_EQ(data.size(), 12);
  EXPECT_EQ(policy.rows, 0);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch next, collector->Collect(Rows(3)));
  EXPECT_EQ(policy.rows, 3);
  EXPECT_EQ(next.segments[0].first_step, 4) << "the episodes go on";
}

TEST(SampleSerialCollectorTest, RandomCollect_OfAPolicyThatStoresMore_IsRefused) {
  Fixture f;
  CollectOptions random = Rows(12);
  random.random_collect = true;
  EXPECT_THAT(f.collector->Collect(random),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("random_collect is set, but the policy stores 'logit'")));
  EXPECT_THAT(f.collector->Collect(Rows(3)), IsOk());
}

TEST(SampleSerialCollectorTest, Close_LogsTheRestOnce) {
  Fixture f;
  ASSERT_THAT(f.collector->Collect(Rows(60)), IsOk());
  ASSERT_GT(f.collector->total_episode_count(), 0);
  EXPECT_THAT(f.sink->ValuesOf("c_iter/episode_count"), IsEmpty()) << "not yet due";
  ASSERT_THAT(f.collector->Close(), IsOk());
  EXPECT_EQ(f.sink->ValuesOf("c_iter/episode_count").size(), 1u);
  ASSERT_THAT(f.collector->Close(), IsOk());
  EXPECT_EQ(f.sink->ValuesOf("c_iter/episode_count").size(), 1u);
  EXPECT_THAT(f.collector->Collect(Rows(3)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is closed")));
}

}  // namespace
}  // namespace ding
