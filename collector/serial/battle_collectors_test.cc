// Tests of BattleSampleSerialCollector and BattleEpisodeSerialCollector. The data of each player
// are compared with those of the single-player collector of the same kind on the same fake envs;
// the tests of these compare with a model.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/collector/testing/serial_parts.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using End = FakeEnvManager::End;
using Episode = FakeEnvManager::Episode;
using Event = FakeEnvManager::Event;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  std::string name;
  bool episodes = false;
  int players = 2;
  bool subsets = false;
  bool late = false;
  double abnormal = 0;
  bool whole_episodes = false;
  int64_t unroll_len = 1;
};

constexpr int64_t kStreamBase = 100;
constexpr int kEnvs = 4;

FakeEnvManager::Options EnvOptions(const Case& param, int players, uint64_t seed) {
  FakeEnvManager::Options options = RandomEnvs(kEnvs, seed, 6, param.abnormal);
  options.players = players;
  options.subsets = param.subsets;
  options.late = param.late;
  return options;
}

template <typename Options>
Options CommonOptions() {
  Options options;
  options.max_abnormal = 1000;
  options.stream_base = kStreamBase;
  options.collect_print_freq = 3;
  return options;
}

std::unique_ptr<ISerialCollector> ForOne(const Case& param, EnvManager* envs, CollectMode* policy) {
  if (param.episodes) {
    return *EpisodeSerialCollector::Create(CommonOptions<EpisodeSerialCollector::Options>(), envs,
                                           policy, {});
  }
  return *SampleSerialCollector::Create(CommonOptions<SampleSerialCollector::Options>(), envs,
                                        policy, {});
}

absl::StatusOr<std::unique_ptr<IBattleCollector>> ForAll(const Case& param, EnvManager* envs,
                                                         std::vector<CollectMode*> policies,
                                                         std::vector<int> wanted = {},
                                                         ComponentDeps deps = {}) {
  if (param.episodes) {
    auto options = CommonOptions<BattleEpisodeSerialCollector::Options>();
    options.collect_players = std::move(wanted);
    return BattleEpisodeSerialCollector::Create(options, envs, std::move(policies), deps);
  }
  auto options = CommonOptions<BattleSampleSerialCollector::Options>();
  options.collect_players = std::move(wanted);
  return BattleSampleSerialCollector::Create(options, envs, std::move(policies), deps);
}

CollectOptions Target(int64_t target, int64_t train_iter = 0) {
  CollectOptions options;
  options.target = target;
  options.train_iter = train_iter;
  return options;
}

// Checks that the `data` of player `player` equal `one`, the data of that player alone.
void ExpectPlayer(const SegmentBatch& data, int player, int players, const SegmentBatch& one) {
  ASSERT_THAT(ValidateSegments(data), IsOk());
  ASSERT_EQ(data.segments.size(), one.segments.size());
  EXPECT_EQ(data.rows.spec(), one.rows.spec());
  for (size_t i = 0; i < one.segments.size(); ++i) {
    const Segment& a = data.segments[i];
    const Segment& b = one.segments[i];
    const int64_t env = b.stream - kStreamBase;
    EXPECT_EQ(a.stream, kStreamBase + env * players + player);
    EXPECT_EQ(a.first_step, b.first_step);
    EXPECT_EQ(a.begin, b.begin);
    EXPECT_EQ(a.length, b.length);
    EXPECT_EQ(a.end, b.end);
  }
  const auto expect_obs = [&](const Batch& a, const Batch& b) {
    for (int64_t k = 0; k < 3 * b.rows(); ++k) {
      const float shown = b.column<float>("obs")[k] + (k % 3 == 0 ? 1000.0f * player : 0);
      EXPECT_EQ(a.column<float>("obs")[k], shown);
    }
  };
  expect_obs(data.rows, one.rows);
  expect_obs(data.final_obs, one.final_obs);
  for (int64_t row = 0; row < one.size(); ++row) {
    EXPECT_EQ(data.rows.column<int64_t>("action")[row], one.rows.column<int64_t>("action")[row]);
    EXPECT_EQ(data.rows.column<float>("reward")[row],
              (player + 1) * one.rows.column<float>("reward")[row]);
    const float env = one.rows.column<float>("logit")[2 * row];
    EXPECT_EQ(data.rows.column<float>("logit")[2 * row], env * players + player) << "the seat";
    EXPECT_EQ(data.rows.column<int64_t>("collect_iter")[row],
              one.rows.column<int64_t>("collect_iter")[row]);
  }
}

class BattleExactnessTest : public testing::TestWithParam<Case> {};

TEST_P(BattleExactnessTest, EachPlayerGetsTheRowsOfACollectorForOne) {
  const Case& param = GetParam();
  for (uint64_t seed = 0; seed < 15; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    CollectAttributes attributes;
    attributes.traj_len_inf = param.whole_episodes;
    attributes.unroll_len = param.unroll_len;
    FakeEnvManager one_envs(EnvOptions(param, 1, seed));
    FakePolicy one_policy(attributes);
    const auto one = ForOne(param, &one_envs, &one_policy);
    FakeEnvManager games(EnvOptions(param, param.players, seed));
    std::vector<std::unique_ptr<FakePolicy>> owned;
    std::vector<CollectMode*> policies;
    for (int i = 0; i < param.players; ++i) {
      owned.push_back(std::make_unique<FakePolicy>(attributes));
      policies.push_back(owned.back().get());
    }
    DING_ASSERT_OK_AND_ASSIGN(const auto all, ForAll(param, &games, policies));
    for (int64_t iter = 0; iter < 8; ++iter) {
      SCOPED_TRACE(absl::StrCat("collect ", iter));
      CollectOptions options = Target(4 + 3 * (iter % 3), iter);
      options.drop_extra = iter % 2 == 0;
      const int64_t before = one->total_episode_count();
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch expected, one->Collect(options));
      DING_ASSERT_OK_AND_ASSIGN(const BattleData data, all->Collect(options));
      ASSERT_EQ(static_cast<int>(data.players.size()), param.players);
      const size_t finished = static_cast<size_t>(one->total_episode_count() - before);
      for (int player = 0; player < param.players; ++player) {
        SCOPED_TRACE(absl::StrCat("player ", player));
        ExpectPlayer(data.players[player], player, param.players, expected);
        ASSERT_EQ(data.episodes[player].size(), finished);
        for (size_t i = 0; i < finished; ++i) {
          EXPECT_EQ(data.episodes[player][i].episode_return,
                    (player + 1) * data.episodes[0][i].episode_return);
        }
      }
      EXPECT_EQ(all->envstep(), one->envstep());
      EXPECT_EQ(all->total_episode_count(), one->total_episode_count());
      // The actions of each policy reached its player.
      for (size_t i = 0; i < games.events().size(); ++i) {
        const Event& event = games.events()[i];
        EXPECT_EQ(event.action, one_envs.events()[i].action);
        EXPECT_EQ(event.other_actions, std::vector<int64_t>(param.players - 1, event.action));
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BattleExactnessTest,
    testing::Values(Case{"Sample"}, Case{"Sample3", false, 3, false, false, 0.2},
                    Case{"SampleLate", false, 2, true, true, 0.2},
                    Case{"SampleWholeEpisodes", false, 3, true, false, 0.2, true},
                    Case{"SamplesOfThreeRows", false, 2, true, true, 0.2, false, 3},
                    Case{"Episode", true}, Case{"Episode3", true, 3, false, false, 0.2},
                    Case{"EpisodeLate", true, 2, true, true, 0.2}),
    [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

// A script whose players end before their game, with it, and in another way than it. One plays on
// to its end.
FakeEnvManager::Episode EarlyEnds(uint64_t seed, uint64_t players, double abnormal, int env_id,
                                  int64_t episode) {
  Episode script = FakeEnvManager::RandomScript(seed, 8, abnormal)(env_id, episode);
  Rng rng(seed, "test/ends", static_cast<uint64_t>(env_id * 1000000 + episode));
  const uint64_t survivor = rng.UniformInt(players);
  for (uint64_t player = 0; player < players; ++player) {
    const auto step = static_cast<int64_t>(rng.UniformInt(script.length + 1));
    const End end = rng.Uniform() < 0.5 ? End::kTerminated : End::kTruncated;
    script.player_ends.emplace_back(player == survivor ? 0 : step, end);
  }
  return script;
}

// What a player saw and did in a step of a game: env, episode and step identify it.
using Moment = std::tuple<int, int64_t, int64_t>;
Moment MomentOf(const float* obs) {
  return {static_cast<int>(obs[0]) % 1000, static_cast<int64_t>(obs[1]),
          static_cast<int64_t>(obs[2])};
}

// The rows of a game whose players end at different times, by the records of the envs.
class EarlyEndsModel {
 public:
  EarlyEndsModel(const FakeEnvManager& games,
                 std::function<Episode(int env_id, int64_t episode)> script, int player)
      : script_(std::move(script)), player_(player) {
    for (const Event& event : games.events()) events_[MomentOf(event.obs.data())] = &event;
  }

  // Checks the rows of the player, each of which must be in a game at its time, once.
  void Expect(const SegmentBatch& data) {
    ASSERT_THAT(ValidateSegments(data), IsOk());
    for (size_t i = 0; i < data.segments.size(); ++i) {
      const Segment& segment = data.segments[i];
      Moment next;
      for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
        const Moment moment = MomentOf(&data.rows.column<float>("obs")[3 * row]);
        if (row > segment.begin) {
          EXPECT_EQ(moment, next);
        }
        next = ExpectRow(data.rows, row, moment);
        const bool last = row + 1 == segment.begin + segment.length;
        EXPECT_EQ(last ? segment.end : SegmentEnd::kCut, EndAfter(moment)) << Name(moment);
      }
      EXPECT_EQ(MomentOf(&data.final_obs.column<float>("obs")[3 * i]), next);
    }
  }
  const std::set<Moment>& seen() const { return seen_; }
  // All moments of games that were not void, in which the player took part.
  std::set<Moment> Lived() const {
    std::set<Moment> lived;
    for (const auto& [moment, event] : events_) {
      const Episode script = script_(std::get<0>(moment), std::get<1>(moment));
      if (script.end != End::kAbnormal && event->plays[player_]) lived.insert(moment);
    }
    return lived;
  }

 private:
  static std::string Name(const Moment& moment) {
    return absl::StrCat("env ", std::get<0>(moment), ", episode ", std::get<1>(moment), ", step ",
                        std::get<2>(moment));
  }
  Moment ExpectRow(const Batch& rows, int64_t row, const Moment& moment) {
    const auto found = events_.find(moment);
    if (found == events_.end()) {
      ADD_FAILURE() << "no such step: " << Name(moment);
      return moment;
    }
    const Event& event = *found->second;
    EXPECT_TRUE(event.plays[player_]) << "a row after the end of the player: " << Name(moment);
    EXPECT_TRUE(seen_.insert(moment).second) << "twice: " << Name(moment);
    EXPECT_EQ(rows.column<int64_t>("action")[row],
              player_ == 0 ? event.action : event.other_actions[player_ - 1]);
    EXPECT_EQ(rows.column<float>("reward")[row],
              (player_ + 1) * (100 * std::get<1>(moment) + std::get<2>(moment)));
    return MomentOf(event.next_obs.data());
  }
  SegmentEnd EndAfter(const Moment& moment) const {
    const auto& [env_id, episode, step] = moment;
    const Episode script = script_(env_id, episode);
    const auto& [its_step, its_end] = script.player_ends[player_];
    if (its_step != step + 1 && script.length != step + 1) return SegmentEnd::kCut;
    const End end = its_step == step + 1 ? its_end : script.end;
    return end == End::kTerminated ? SegmentEnd::kTerminated : SegmentEnd::kTruncated;
  }

  const std::function<Episode(int, int64_t)> script_;
  const int player_;
  std::map<Moment, const Event*> events_;
  std::set<Moment> seen_;
};

TEST_P(BattleExactnessTest, APlayerThatEndsBeforeItsGameHasNoRowsAfterItsEnd) {
  const Case& param = GetParam();
  for (uint64_t seed = 0; seed < 15; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const auto script = [&](int env_id, int64_t episode) {
      return EarlyEnds(seed, 3, param.abnormal, env_id, episode);
    };
    FakeEnvManager::Options options = EnvOptions(param, 3, seed);
    options.script = script;
    FakeEnvManager games(options);
    CollectAttributes attributes;
    attributes.traj_len_inf = param.whole_episodes;
    attributes.unroll_len = param.unroll_len;
    FakePolicy policies[3] = {FakePolicy(attributes), FakePolicy(attributes),
                              FakePolicy(attributes)};
    DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                              ForAll(param, &games, {&policies[0], &policies[1], &policies[2]}));
    std::vector<BattleData> collects;
    for (int iter = 0; iter < 8; ++iter) {
      CollectOptions collect = Target(6 + 3 * (iter % 3), iter);
      collect.drop_extra = false;
      DING_ASSERT_OK_AND_ASSIGN(BattleData data, collector->Collect(collect));
      collects.push_back(std::move(data));
    }
    int64_t asked = 0;
    for (int player = 0; player < 3; ++player) {
      SCOPED_TRACE(absl::StrCat("player ", player));
      EarlyEndsModel model(games, script, player);
      for (const BattleData& data : collects) model.Expect(data.players[player]);
      const std::set<Moment> lived = model.Lived();
      if (param.episodes) {
        EXPECT_EQ(model.seen(), lived);
      }
      if (param.whole_episodes) {
        EXPECT_TRUE(
            std::includes(lived.begin(), lived.end(), model.seen().begin(), model.seen().end()))
            << "rows of a void episode";
      }
      asked += policies[player].rows;
    }
    // Policies are asked for the players in the games only, and steps of the game are counted.
    int64_t acted = 0;
    int64_t steps = 0;
    for (const Event& event : games.events()) {
      acted += std::count(event.plays.begin(), event.plays.end(), true);
      steps += event.abnormal ? 0 : 1;
    }
    if (!param.late) {
      EXPECT_EQ(asked, acted);
    }
    EXPECT_EQ(collector->envstep(), steps);
    if (HasFailure()) return;
  }
}

class BattleCollectorsTest : public testing::TestWithParam<bool> {
 protected:
  Case param() const {
    Case param;
    param.episodes = GetParam();
    return param;
  }
  FakeEnvManager::Options Games(std::function<Episode(int, int64_t)> script = nullptr) const {
    FakeEnvManager::Options options;
    options.env_num = kEnvs;
    options.players = 2;
    options.script = std::move(script);
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(All, BattleCollectorsTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Episode" : "Sample";
                         });

TEST_P(BattleCollectorsTest, OnePolicyPlaysAllPlayers) {
  FakeEnvManager games(Games());
  FakePolicy policy;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector, ForAll(param(), &games, {&policy, &policy}));
  DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(Target(8)));
  std::set<int64_t> streams;
  std::set<float> asked;
  for (int player = 0; player < 2; ++player) {
    const SegmentBatch& own = data.players[player];
    for (const Segment& segment : own.segments) {
      streams.insert(segment.stream);
      EXPECT_EQ((segment.stream - kStreamBase) % 2, player);
      for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
        EXPECT_EQ(own.rows.column<float>("logit")[2 * row],
                  static_cast<float>(segment.stream - kStreamBase));
        const float number = own.rows.column<float>("logit")[2 * row + 1];
        EXPECT_TRUE(asked.insert(number).second) << "one output for two rows";
        EXPECT_EQ(own.rows.column<int64_t>("action")[row], static_cast<int64_t>(number) % 4);
      }
    }
  }
  EXPECT_EQ(streams.size(), 8u);
  EXPECT_EQ(static_cast<int64_t>(asked.size()), policy.rows);
}

TEST_P(BattleCollectorsTest, ReturnsOnlyTheRowsOfTheWantedPlayers) {
  // In many collects, the rows of the other players must not accumulate (D26).
  FakeEnvManager games(Games());
  FakePolicy ours;
  FakePolicy theirs;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector, ForAll(param(), &games, {&ours, &theirs}, {1}));
  for (int64_t i = 0; i < 5; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(Target(4)));
    EXPECT_EQ(data.players[0].size(), 0);
    EXPECT_GT(data.players[1].size(), 0);
    EXPECT_EQ(data.episodes[0].size(), data.episodes[1].size());
  }
  EXPECT_THAT(ForAll(param(), &games, {&ours, &theirs}, {2}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("collect_players has 2")));
  EXPECT_THAT(ForAll(param(), &games, {&ours, &theirs}, {1, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("collect_players has 1")));
}

TEST(BattleSampleSerialCollectorTest, DropExtraCutsTheRowsOfEachPlayer) {
  // D24: a target of 1 gave the data of player 0 only.
  FakeEnvManager::Options options;
  options.players = 2;
  FakeEnvManager games(options);
  FakePolicy ours;
  FakePolicy theirs;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector, ForAll(Case(), &games, {&ours, &theirs}));
  CollectOptions collect = Target(1);
  DING_ASSERT_OK_AND_ASSIGN(const BattleData cut, collector->Collect(collect));
  EXPECT_EQ(cut.players[0].size(), 1);
  EXPECT_EQ(cut.players[1].size(), 1);
  collect.drop_extra = false;
  DING_ASSERT_OK_AND_ASSIGN(const BattleData all, collector->Collect(collect));
  EXPECT_EQ(all.players[0].size(), 3);
  EXPECT_EQ(all.players[1].size(), 3);
}

TEST_P(BattleCollectorsTest, NamesAnEnvThatStaysAbnormal) {
  FakeEnvManager games(Games([](int env_id, int64_t) {
    return Episode{1, env_id == 1 ? End::kAbnormal : End::kTerminated};
  }));
  FakePolicy ours;
  FakePolicy theirs;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector, ForAll(param(), &games, {&ours, &theirs}));
  EXPECT_THAT(collector->Collect(Target(10000)),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("env 1")));
}

TEST_P(BattleCollectorsTest, AFailingPlayerLeavesTheCollectorUsable) {
  FakeEnvManager games(Games());
  FakePolicy ours;
  FakePolicy theirs;
  DING_ASSERT_OK_AND_ASSIGN(const auto collector, ForAll(param(), &games, {&ours, &theirs}));
  theirs.on_forward = [](absl::Span<const int>) { return absl::DataLossError("lost"); };
  EXPECT_THAT(collector->Collect(Target(4)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("policy: lost")));
  theirs.on_forward = nullptr;
  DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(Target(4)));
  EXPECT_THAT(ValidateSegments(data.players[0]), IsOk());
  EXPECT_EQ(data.players[0].size(), data.players[1].size());
}

TEST_P(BattleCollectorsTest, WritesMetricsOfEachPlayer) {
  FakeEnvManager games(Games([](int env_id, int64_t) {
    return Episode{1 + env_id % 2, End::kTerminated};
  }));
  FakePolicy ours;
  FakePolicy theirs;
  ComponentDeps deps;
  const auto sink = std::make_shared<RecordingSink>();
  deps.metrics = sink;
  deps.name = "b";
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            ForAll(param(), &games, {&ours, &theirs}, {}, deps));
  // One step of each env; or, of episodes, two of envs 1 and 3.
  ASSERT_THAT(collector->Collect(Target(4, 3)), IsOk());
  const double mean = GetParam() ? 0.5 : 0;
  EXPECT_THAT(sink->ValuesOf("b_iter/reward0_mean"), ElementsAre(mean));
  EXPECT_THAT(sink->ValuesOf("b_iter/reward1_mean"), ElementsAre(2 * mean));
  EXPECT_THAT(sink->ScalarTags(),
              AllOf(testing::IsSupersetOf({"b_iter/collect_time", "b_iter/total_duration",
                                           "b_step/reward1_std", "b_step/reward0_min"}),
                    testing::Not(testing::Contains("b_iter/train_sample_count"))));
}

TEST_P(BattleCollectorsTest, ResumesWithTheSameBytes) {
  struct Session {
    explicit Session(const Case& param)
        : games(Games(param)),
          ours(Attributes(param)),
          theirs(Attributes(param)),
          collector(*ForAll(param, &games, {&ours, &theirs})) {}
    static FakeEnvManager::Options Games(const Case& param) {
      FakeEnvManager::Options options = EnvOptions(param, 2, 3);
      options.script = [abnormal = param.abnormal](int env_id, int64_t episode) {
        return EarlyEnds(3, 2, abnormal, env_id, episode);
      };
      return options;
    }
    static CollectAttributes Attributes(const Case& param) {
      CollectAttributes attributes;
      attributes.traj_len_inf = param.whole_episodes;
      return attributes;
    }
    FakeEnvManager games;
    FakePolicy ours;
    FakePolicy theirs;
    std::unique_ptr<IBattleCollector> collector;
  };
  Case with_subsets = param();
  with_subsets.subsets = true;
  with_subsets.abnormal = 0.1;
  with_subsets.whole_episodes = true;
  Session straight(with_subsets);
  Session resumed(with_subsets);
  for (int64_t i = 0; i < 5; ++i) ASSERT_THAT(straight.collector->Collect(Target(7, i)), IsOk());
  StateDict state;
  ScopedStateWriter env_writer(&state, "env");
  ScopedStateWriter ours_writer(&state, "ours");
  ScopedStateWriter theirs_writer(&state, "theirs");
  ScopedStateWriter writer(&state, "collector");
  ASSERT_THAT(straight.games.SaveState(&env_writer), IsOk());
  ASSERT_THAT(straight.ours.SaveState(&ours_writer), IsOk());
  ASSERT_THAT(straight.theirs.SaveState(&theirs_writer), IsOk());
  ASSERT_THAT(straight.collector->SaveState(&writer), IsOk());
  ScopedStateReader env_reader(&state, "env");
  ScopedStateReader ours_reader(&state, "ours");
  ScopedStateReader theirs_reader(&state, "theirs");
  ScopedStateReader reader(&state, "collector");
  std::vector<int> restarted;
  ASSERT_THAT(resumed.games.LoadState(&env_reader, &restarted), IsOk());
  ASSERT_THAT(resumed.ours.LoadState(&ours_reader), IsOk());
  ASSERT_THAT(resumed.theirs.LoadState(&theirs_reader), IsOk());
  ASSERT_THAT(resumed.collector->LoadState(&reader), IsOk());
  for (int64_t i = 5; i < 12; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const BattleData a, straight.collector->Collect(Target(7, i)));
    DING_ASSERT_OK_AND_ASSIGN(const BattleData b, resumed.collector->Collect(Target(7, i)));
    for (int player = 0; player < 2; ++player) {
      ExpectSameData(a.players[player], b.players[player]);
    }
  }
  EXPECT_EQ(straight.collector->envstep(), resumed.collector->envstep());
}

TEST_P(BattleCollectorsTest, ChecksItsArguments) {
  FakeEnvManager games(Games());
  FakePolicy policy;
  FakePolicy other({}, 7);
  EXPECT_THAT(ForAll(param(), nullptr, {&policy, nullptr}, {5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("no env manager"), HasSubstr("no policy for some player"),
                             HasSubstr("collect_players has 5"))));
  EXPECT_THAT(ForAll(param(), &games, {&policy, &policy, &policy}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("3 policies"), HasSubstr("2 players"))));
  EXPECT_THAT(ForAll(param(), &games, {&policy, &other}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("player 1"), HasSubstr("0..6"))));
  FakeEnvManager for_one({});
  EXPECT_THAT(ForAll(param(), &for_one, {&policy}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("expected a game")));
  DING_ASSERT_OK_AND_ASSIGN(const auto collector, ForAll(param(), &games, {&policy, &policy}));
  EXPECT_THAT(collector->ResetPolicies({&policy}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("as many as before, 2")));
}

// A game of four steps. Player p sees {p, step, its last action, the other's last action}; the
// player with the larger action wins the difference.
class SayMore : public Env {
 public:
  SayMore() {
    EnvSpec player;
    player.name = "SayMore";
    player.observation = MakeSpec({Box("obs", {4})}).value();
    player.action = MakeSpec({Discrete("action", 4)}).value();
    spec_ = GameSpec(player, 2).value();
  }
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef& obs) override {
    step_ = 0;
    Show({-1, -1}, obs);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    const std::array<float, 2> said = {static_cast<float>(action.scalar<int64_t>(0)),
                                       static_cast<float>(action.scalar<int64_t>(1))};
    ++step_;
    Show(said, obs);
    result->reward = said[0] - said[1];
    result->other_rewards[0] = said[1] - said[0];
    result->terminated = step_ == 4;
    return absl::OkStatus();
  }

 private:
  void Show(const std::array<float, 2>& said, const RowRef& obs) const {
    for (int player = 0; player < 2; ++player) {
      const std::array<float, 4> seen = {static_cast<float>(player), static_cast<float>(step_),
                                         said[player], said[1 - player]};
      std::copy(seen.begin(), seen.end(), obs.field<float>(player).begin());
    }
  }

  EnvSpec spec_;
  int step_ = 0;
};

TEST_P(BattleCollectorsTest, RealEnvsGetTheActionsOfThePolicies) {
  const std::vector<EnvFactory> factories(
      3, []() -> absl::StatusOr<std::unique_ptr<Env>> { return std::make_unique<SayMore>(); });
  DING_ASSERT_OK_AND_ASSIGN(const auto games, BaseEnvManager::Create({}, factories));
  FakePolicy ours;
  FakePolicy theirs;
  theirs.rows = 2;  // so that they say something else
  DING_ASSERT_OK_AND_ASSIGN(const auto collector, ForAll(param(), games.get(), {&ours, &theirs}));
  for (int i = 0; i < 3; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(Target(5)));
    const SegmentBatch& first = data.players[0];
    const SegmentBatch& second = data.players[1];
    ASSERT_THAT(ValidateSegments(first), IsOk());
    ASSERT_THAT(ValidateSegments(second), IsOk());
    ASSERT_EQ(first.size(), second.size());
    const auto seen = [](const Batch& batch, int64_t row) {
      return batch.column<float>("obs").subspan(static_cast<size_t>(4 * row), 4);
    };
    for (size_t k = 0; k < first.segments.size(); ++k) {
      const Segment& segment = first.segments[k];
      EXPECT_EQ(segment.length, second.segments[k].length);
      EXPECT_EQ(segment.stream + 1, second.segments[k].stream);
      for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
        const int64_t we = first.rows.column<int64_t>("action")[row];
        const int64_t they = second.rows.column<int64_t>("action")[row];
        EXPECT_EQ(first.rows.column<float>("reward")[row], static_cast<float>(we - they));
        EXPECT_EQ(second.rows.column<float>("reward")[row], static_cast<float>(they - we));
        EXPECT_EQ(seen(first.rows, row)[0], 0);
        EXPECT_EQ(seen(second.rows, row)[0], 1);
        const bool last = row + 1 == segment.begin + segment.length;
        const auto next =
            last ? seen(first.final_obs, static_cast<int64_t>(k)) : seen(first.rows, row + 1);
        EXPECT_EQ(next[2], static_cast<float>(we));
        EXPECT_EQ(next[3], static_cast<float>(they));
      }
    }
  }
}

}  // namespace
}  // namespace ding
