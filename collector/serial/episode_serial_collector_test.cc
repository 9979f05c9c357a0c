// Compares the collected episodes with the records of the fake envs over random scripts, and tests
// further properties.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/classic_control/cartpole.h"
#include "ding_worker/policy/random_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using End = FakeEnvManager::End;
using Episode = FakeEnvManager::Episode;
using Event = FakeEnvManager::Event;
using Options = EpisodeSerialCollector::Options;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The env and the number of an episode.
using EpisodeId = std::pair<int, int>;

EpisodeId IdOf(const Event& event) { return {event.env_id, static_cast<int>(event.obs[1])}; }
bool Ended(const Event& event) { return event.terminated || event.truncated; }

CollectOptions Episodes(int64_t target, int64_t train_iter = 0) {
  CollectOptions options;
  options.target = target;
  options.train_iter = train_iter;
  return options;
}

std::vector<float> Values(const Batch& batch, const char* field, int64_t begin, int64_t count) {
  const absl::Span<const float> all = batch.column<float>(field);
  const absl::Span<const float> part =
      all.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
  return {part.begin(), part.end()};
}

// Returns the recorded steps of the fake envs, episode by episode.
std::map<EpisodeId, std::vector<Event>> ByEpisode(absl::Span<const Event> events) {
  std::map<EpisodeId, std::vector<Event>> episodes;
  for (const Event& event : events) episodes[IdOf(event)].push_back(event);
  return episodes;
}

// `events` are the recorded steps of the collect.
void ExpectTheEpisodesOf(absl::Span<const Event> events, int64_t train_iter,
                         const SegmentBatch& data) {
  ASSERT_THAT(ValidateSegments(data), IsOk());
  std::map<EpisodeId, std::vector<Event>> episodes = ByEpisode(events);
  for (auto it = episodes.begin(); it != episodes.end();) {
    const Event& last = it->second.back();
    EXPECT_EQ(it->second.front().obs[2], 0) << "an episode that began before";
    EXPECT_TRUE(Ended(last) || last.abnormal) << "an episode that does not end";
    it = last.abnormal ? episodes.erase(it) : std::next(it);
  }
  ASSERT_EQ(data.segments.size(), episodes.size());
  for (size_t i = 0; i < data.segments.size(); ++i) {
    const Segment& segment = data.segments[i];
    const std::vector<float> first = Values(data.rows, "obs", 3 * segment.begin, 3);
    const EpisodeId id(static_cast<int>(first[0]), static_cast<int>(first[1]));
    ASSERT_TRUE(episodes.count(id)) << "twice, or none that ended";
    const std::vector<Event>& steps = episodes[id];
    ASSERT_EQ(segment.length, static_cast<int64_t>(steps.size()));
    EXPECT_EQ(segment.stream, id.first);
    EXPECT_EQ(segment.end,
              steps.back().terminated ? SegmentEnd::kTerminated : SegmentEnd::kTruncated);
    for (int64_t k = 0; k < segment.length; ++k) {
      const int64_t row = segment.begin + k;
      const std::vector<float> obs = Values(data.rows, "obs", 3 * row, 3);
      EXPECT_THAT(obs, testing::ElementsAreArray(steps[k].obs));
      EXPECT_EQ(data.rows.column<int64_t>("action")[row], steps[k].action);
      EXPECT_EQ(data.rows.column<float>("reward")[row], steps[k].reward);
      EXPECT_EQ(data.rows.column<float>("logit")[2 * row + 1], static_cast<float>(steps[k].asked));
      EXPECT_EQ(data.rows.column<int64_t>("collect_iter")[row], train_iter);
    }
    EXPECT_THAT(Values(data.final_obs, "obs", 3 * static_cast<int64_t>(i), 3),
                testing::ElementsAreArray(steps.back().next_obs));
    episodes.erase(id);
  }
}

struct Case {
  std::string name;
  bool subsets = false;
  bool late = false;
  double abnormal = 0;
  int env_num = 4;
};

class EpisodeExactnessTest : public testing::TestWithParam<Case> {};

TEST_P(EpisodeExactnessTest, BeginsAndFinishesExactlyTheTarget) {
  const Case& param = GetParam();
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "episodes");
    FakeEnvManager::Options env_options = RandomEnvs(param.env_num, seed, 7, param.abnormal);
    env_options.subsets = param.subsets;
    env_options.late = param.late;
    FakeEnvManager envs(env_options);
    FakePolicy policy;
    Options options;
    options.max_abnormal = 1000;
    DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                              EpisodeSerialCollector::Create(options, &envs, &policy, {}));
    std::map<int64_t, int64_t> last_step;  // of each stream
    int64_t episodes = 0;
    size_t seen = 0;
    for (int64_t iter = 0; iter < 8; ++iter) {
      SCOPED_TRACE(absl::StrCat("collect ", iter));
      const int64_t target = param.env_num + static_cast<int64_t>(rng.UniformInt(7));
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data,
                                collector->Collect(Episodes(target, iter)));
      EXPECT_EQ(static_cast<int64_t>(data.segments.size()), target);
      ExpectTheEpisodesOf(absl::MakeConstSpan(envs.events()).subspan(seen), iter, data);
      seen = envs.events().size();
      for (const Segment& segment : data.segments) {
        const auto it = last_step.find(segment.stream);
        if (it != last_step.end()) {
          EXPECT_GT(segment.first_step, it->second);
        }
        last_step[segment.stream] = segment.first_step + segment.length - 1;
      }
      episodes += target;
      EXPECT_EQ(collector->total_episode_count(), episodes);
      EXPECT_EQ(collector->envstep(),
                std::count_if(envs.events().begin(), envs.events().end(),
                              [](const Event& event) { return !event.abnormal; }));
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EpisodeExactnessTest,
                         testing::Values(Case{"Plain"}, Case{"OneEnv", false, false, 0.2, 1},
                                         Case{"Abnormal", false, false, 0.3},
                                         Case{"Subsets", true, false, 0.2},
                                         Case{"Late", false, true, 0},
                                         Case{"LateSubsets", true, true, 0.2, 6}),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

struct Fixture : SerialParts {
  explicit Fixture(FakeEnvManager::Options env_options = {}, Options options = {},
                   const CollectAttributes& attributes = {})
      : SerialParts(std::move(env_options), attributes, "c"),
        collector(Make<EpisodeSerialCollector>(std::move(options))) {}

  std::unique_ptr<EpisodeSerialCollector> collector;
};

TEST(EpisodeSerialCollectorTest, CollectsEighteenEpisodesOfEightCartPoles) {
  std::vector<EnvFactory> factories(8, [] { return CreateCartPole("CartPole-v0", 200); });
  DING_ASSERT_OK_AND_ASSIGN(const auto envs, BaseEnvManager::Create({}, factories));
  CollectAttributes attributes;
  attributes.n_episode = 18;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy,
                            RandomCollectMode::Create(envs->env_spec().action, 0, attributes));
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            EpisodeSerialCollector::Create({}, envs.get(), policy.get(), {}));
  int64_t rows = 0;
  for (const bool record : {true, false}) {
    CollectOptions options;
    options.record_episodes = record;
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(options));
    ASSERT_THAT(ValidateSegments(data), IsOk());
    EXPECT_EQ(data.segments.size(), 18u);
    for (const Segment& segment : data.segments) EXPECT_NE(segment.end, SegmentEnd::kCut);
    rows += data.size();
  }
  EXPECT_EQ(collector->envstep(), rows);
  EXPECT_EQ(collector->total_episode_count(), 36);
}

TEST(EpisodeSerialCollectorTest, RefusesTargetsThatAreMissingOrTooSmall) {
  Fixture f;
  EXPECT_THAT(f.collector->Collect({}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("n_episode")));
  EXPECT_THAT(f.collector->Collect(Episodes(2)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 episodes of 3 envs")));
  EXPECT_TRUE(f.envs.events().empty());
}

TEST(EpisodeSerialCollectorTest, Collect_EpisodesWithoutAnEnd_WarnsOnce) {
  constexpr int64_t kSteps = 100001;
  Fixture f(WithScript(1, [](int, int64_t) {
    FakeEnvManager::Episode episode;
    episode.length = kSteps;
    return episode;
  }));
  testing::internal::CaptureStderr();
  EXPECT_THAT(f.collector->Collect(Episodes(1)), IsOk());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("no episode has ended for 100000 steps"));
  EXPECT_THAT(log, HasSubstr("needs the wrapper time_limit"));
}

TEST(EpisodeSerialCollectorTest, AnEnvThatIsAbnormalAtFirstIsUsedAgain) {
  Fixture f(WithScript(4, [](int env_id, int64_t episode) {
    return env_id == 1 && episode < 4 ? Episode{1, End::kAbnormal} : Episode{3, End::kTerminated};
  }));
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Episodes(8)));
  EXPECT_EQ(data.segments.size(), 8u);
  EXPECT_EQ(f.envs.ready_obs().env_ids.size(), 4u);
}

TEST(EpisodeSerialCollectorTest, NamesAnEnvThatStaysAbnormal) {
  Options options;
  options.max_abnormal = 5;
  Fixture f(WithScript(2,
                       [](int env_id, int64_t) {
                         return Episode{2, env_id == 1 ? End::kAbnormal : End::kTerminated};
                       }),
            options);
  EXPECT_THAT(f.collector->Collect(Episodes(20)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("c: env 1"), HasSubstr("5 times"))));
}

TEST(EpisodeSerialCollectorTest, ReturnsAnErrorForEnvsThatAreDone) {
  FakeEnvManager::Options env_options;
  env_options.episode_num = 1;
  Fixture f(env_options);
  EXPECT_THAT(f.collector->Collect(Episodes(4)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("env 1 is DONE")));
}

TEST(EpisodeSerialCollectorTest, AfterAFailureTheNextCollectBeginsAnew) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    FakeEnvManager::Options env_options = WithScript(3, [](int env_id, int64_t) {
      return Episode{2 + 3 * env_id, End::kTerminated};
    });
    env_options.late = late;
    Fixture f(env_options);
    int calls = 0;
    f.policy.on_forward = [&](absl::Span<const int>) {
      return ++calls == 4 ? absl::AbortedError("enough") : absl::OkStatus();
    };
    EXPECT_THAT(f.collector->Collect(Episodes(5)),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("c: policy: enough")));
    const size_t seen = f.envs.events().size();
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Episodes(5, 7)));
    // The finished first episode of env 0 is not among them either.
    ExpectTheEpisodesOf(absl::MakeConstSpan(f.envs.events()).subspan(seen), 7, data);
    EXPECT_EQ(data.segments.size(), 5u);
  }
}

TEST(EpisodeSerialCollectorTest, EnvsInMidEpisodeBeginANewOne) {
  FakeEnvManager envs({});
  FakePolicy policy;
  ASSERT_THAT(envs.Launch(), IsOk());
  const auto step = [&] {
    DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder actions,
                              BatchBuilder::Create(envs.env_spec().action, 3));
    for (int64_t& action : actions.column<int64_t>(0)) action = 0;
    ASSERT_THAT(envs.Step({0, 1, 2}, actions.view()), IsOk());
    policy.rows += 3;  // it counts what the envs were asked
  };
  step();
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            EpisodeSerialCollector::Create({}, &envs, &policy, {}));
  ASSERT_THAT(collector->Collect(Episodes(3)), IsOk());
  step();
  ASSERT_THAT(collector->ResetEnv(&envs), IsOk());
  const size_t seen = envs.events().size();
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, collector->Collect(Episodes(3)));
  ExpectTheEpisodesOf(absl::MakeConstSpan(envs.events()).subspan(seen), 0, data);
}

TEST(EpisodeSerialCollectorTest, GetTrainSampleOnRequest) {
  for (const bool wanted : {false, true}) {
    Options options;
    options.get_train_sample = wanted;
    Fixture f({}, options);
    f.policy.on_train_sample = [](SegmentBatch* data) { data->segments[0].stream = 77; };
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Episodes(3)));
    EXPECT_EQ(data.segments[0].stream == 77, wanted);
  }
}

TEST(EpisodeSerialCollectorTest, RewardsAreReshaped) {
  Options options;
  std::vector<int> shaped;
  options.reward_shaping = [&](int env_id, const ColumnsView& rows, absl::Span<float> rewards) {
    shaped.push_back(env_id);
    EXPECT_EQ(rows.column<float>(0)[0], static_cast<float>(env_id));
    EXPECT_EQ(rows.column<float>(0)[2], 0) << "not from the beginning";
    for (float& reward : rewards) reward = 1000 * static_cast<float>(rewards.size());
    return absl::OkStatus();
  };
  options.collect_print_freq = 1;
  Fixture f(WithScript(2,
                       [](int env_id, int64_t) {
                         return Episode{1 + env_id, End::kTerminated};
                       }),
            options);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(Episodes(3, 1)));
  EXPECT_THAT(shaped, ElementsAre(0, 0, 1));
  EXPECT_THAT(data.rows.column<float>("reward"), ElementsAre(1000, 2000, 2000, 1000));
  // Returns are those of the env: 0, 0 + 1, and 100 for the second episode of env 0.
  EXPECT_THAT(f.sink->ValuesOf("c_iter/reward_mean"), ElementsAre((0 + 100 + 1) / 3.0));
}

TEST(EpisodeSerialCollectorTest, AFailureOfRewardShapingIsNamed) {
  Options options;
  options.reward_shaping = [](int, const ColumnsView&, absl::Span<float>) -> absl::Status {
    throw std::runtime_error("no such reward");
  };
  Fixture f({}, options);
  EXPECT_THAT(f.collector->Collect(Episodes(3)),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("reward_shaping"), HasSubstr("no such reward"))));
}

TEST(EpisodeSerialCollectorTest, LevelSeedsAndSettingsArrive) {
  Fixture f;
  CollectOptions options = Episodes(4);
  options.level_seeds = {10, 11, 12};
  options.policy_settings.Set("eps", 0.5);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch data, f.collector->Collect(options));
  EXPECT_EQ(f.policy.last_settings.Get("eps"), 0.5);
  for (const Segment& segment : data.segments) {
    EXPECT_EQ(data.rows.column<int64_t>("level_seed")[segment.begin], 10 + segment.stream);
  }
}

TEST(EpisodeSerialCollectorTest, ResetsThePolicyAtTheEndOfEpisodes) {
  Fixture f(WithScript(2, [](int env_id, int64_t episode) {
    return Episode{2 + env_id, episode == 0 && env_id == 0 ? End::kAbnormal : End::kTruncated};
  }));
  f.policy.resets.clear();
  ASSERT_THAT(f.collector->Collect(Episodes(2)), IsOk());
  EXPECT_THAT(f.policy.resets, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0)));
}

TEST(EpisodeSerialCollectorTest, WritesMetrics) {
  // Compare with statistics of the recorded steps.
  FakeEnvManager::Options env_options = WithScript(3, FakeEnvManager::RandomScript(5, 9, 0.2));
  Options options;
  options.collect_print_freq = 10;
  options.max_abnormal = 100;
  Fixture f(env_options, options);
  f.policy.on_forward = [&](absl::Span<const int>) {
    f.clock.Advance(absl::Milliseconds(100));
    return absl::OkStatus();
  };
  ASSERT_THAT(f.collector->Collect(Episodes(5, 5)), IsOk());
  EXPECT_THAT(f.sink->scalars(), IsEmpty()) << "too early";
  ASSERT_THAT(f.collector->Collect(Episodes(7, 10)), IsOk());
  std::vector<double> returns;
  double length = 0;
  int64_t steps = 0;
  int64_t abnormal = 0;
  std::set<int64_t> calls;
  for (const auto& [id, events] : ByEpisode(f.envs.events())) {
    double sum = 0;
    for (const Event& event : events) {
      sum += event.reward;
      calls.insert(event.call);
      ++(event.abnormal ? abnormal : steps);
    }
    if (!Ended(events.back())) continue;
    returns.push_back(sum);
    length += static_cast<double>(events.size());
  }
  ASSERT_EQ(returns.size(), 12u);
  const double seconds = 0.1 * static_cast<double>(calls.size());
  double mean = 0;
  for (const double value : returns) mean += value / 12;
  double variance = 0;
  for (const double value : returns) variance += (value - mean) * (value - mean) / 12;
  const std::map<std::string, double> expected = {
      {"episode_count", 12},
      {"abnormal_episode_count", static_cast<double>(abnormal)},
      {"envstep_count", length},
      {"avg_envstep_per_episode", length / 12},
      {"avg_envstep_per_sec", static_cast<double>(steps) / seconds},
      {"avg_episode_per_sec", 12 / seconds},
      {"collect_time", seconds},
      {"reward_mean", mean},
      {"reward_std", std::sqrt(variance)},
      {"reward_max", *std::max_element(returns.begin(), returns.end())},
      {"reward_min", *std::min_element(returns.begin(), returns.end())},
      {"total_envstep_count", static_cast<double>(steps)},
      {"total_episode_count", 12},
      {"total_duration", seconds},
  };
  for (const auto& [metric, value] : expected) {
    EXPECT_THAT(f.sink->ValuesOf("c_iter/" + metric), ElementsAre(testing::DoubleNear(value, 1e-6)))
        << metric;
  }
  EXPECT_EQ(f.sink->ScalarTags().size(), 2 * expected.size() - 1);
}

TEST(EpisodeSerialCollectorTest, DoesNotLogEpisodesOfARandomPolicy) {
  Options options;
  options.collect_print_freq = 1;
  Fixture f({}, options);
  CollectOptions random = Episodes(4, 1);
  random.record_episodes = false;
  ASSERT_THAT(f.collector->Collect(random), IsOk());
  EXPECT_THAT(f.sink->scalars(), IsEmpty());
  ASSERT_THAT(f.collector->Collect(Episodes(3, 2)), IsOk());
  EXPECT_THAT(f.sink->ValuesOf("c_iter/episode_count"), ElementsAre(3));
}

TEST(EpisodeSerialCollectorTest, ResumesWithTheSameBytes) {
  for (const bool failed : {false, true}) {
    SCOPED_TRACE(failed);
    FakeEnvManager::Options env_options = WithScript(4, FakeEnvManager::RandomScript(3, 6, 0.1));
    env_options.subsets = true;
    Options options;
    options.collect_print_freq = 7;
    Fixture straight(env_options, options);
    Fixture resumed(env_options, options);
    for (int64_t i = 0; i < 5; ++i) {
      ASSERT_THAT(straight.collector->Collect(Episodes(6, i)), IsOk());
    }
    if (failed) {
      int calls = 0;
      straight.policy.on_forward = [&calls](absl::Span<const int>) {
        return ++calls == 2 ? absl::AbortedError("enough") : absl::OkStatus();
      };
      ASSERT_THAT(straight.collector->Collect(Episodes(6)), StatusIs(absl::StatusCode::kAborted));
      straight.policy.on_forward = nullptr;
    }
    StateDict state = straight.Save(*straight.collector);
    ASSERT_THAT(resumed.collector->Collect(Episodes(4)), IsOk());
    resumed.Load(&state, resumed.collector.get());
    for (int64_t i = 5; i < 12; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch a, straight.collector->Collect(Episodes(6, i)));
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch b, resumed.collector->Collect(Episodes(6, i)));
      ExpectSameData(a, b);
    }
    EXPECT_EQ(resumed.sink->ValuesOf("c_iter/reward_mean"),
              straight.sink->ValuesOf("c_iter/reward_mean"));
  }
}

TEST(EpisodeSerialCollectorTest, ChecksItsConfiguration) {
  Options bad;
  bad.collect_print_freq = 0;
  bad.max_abnormal = 0;
  EXPECT_THAT(EpisodeSerialCollector::Create(bad, nullptr, nullptr, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("collect_print_freq is 0"), HasSubstr("max_abnormal is 0"),
                             HasSubstr("no env manager"), HasSubstr("no policy"))));
  FakeEnvManager::Options game;
  game.players = 2;
  FakeEnvManager games(game);
  FakePolicy policy;
  EXPECT_THAT(EpisodeSerialCollector::Create({}, &games, &policy, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("episode_1v1")));
}

}  // namespace
}  // namespace ding
