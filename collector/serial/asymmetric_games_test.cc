// Tests of games whose players see and do different things: the collectors with a policy per player
// against a recorder in the envs, evaluators, and the refusals of one policy for all players.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/evaluator/opponent_evaluator.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/parallel_collectors.h"
#include "ding_worker/collector/serial/self_play_collector.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/testing/game_envs.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kEnvs = 3;

// What one step of the game was.
struct Recorded {
  std::vector<float> pursuer_saw, pursuer_sees;  // obs/0, before and after the step
  std::vector<float> evader_saw, evader_sees;    // obs/1/distance
  std::vector<uint8_t> evader_mask;              // obs/1/action_mask before the step
  float pursuer_action;
  int64_t evader_action;
  float reward;
  SegmentEnd end;  // kCut: the game goes on
};

template <typename T>
std::vector<T> Values(absl::Span<const T> values) {
  return {values.begin(), values.end()};
}

class RecordedPursuit : public PursuitEnv {
 public:
  explicit RecordedPursuit(std::vector<Recorded>* log) : log_(log) {}

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    DING_RETURN_IF_ERROR(PursuitEnv::Reset(start, obs));
    See(obs, &next_);
    return absl::OkStatus();
  }
  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    Recorded step = next_;
    step.pursuer_action = action.field<float>(0)[0];
    step.evader_action = action.scalar<int64_t>(1);
    DING_RETURN_IF_ERROR(PursuitEnv::Step(action, obs, result));
    step.reward = result->reward;
    step.end = result->terminated  ? SegmentEnd::kTerminated
               : result->truncated ? SegmentEnd::kTruncated
                                   : SegmentEnd::kCut;
    See(obs, &next_);
    step.pursuer_sees = next_.pursuer_saw;
    step.evader_sees = next_.evader_saw;
    log_->push_back(step);
    return absl::OkStatus();
  }

 private:
  static void See(const RowRef& obs, Recorded* next) {
    next->pursuer_saw = Values<float>(obs.field<float>(0));
    next->evader_saw = Values<float>(obs.field<float>(1));
    next->evader_mask = Values<uint8_t>(obs.field<uint8_t>(2));
  }

  std::vector<Recorded>* const log_;
  Recorded next_;
};

std::unique_ptr<Policy> RandomPlayer(const EnvSpec& player, uint64_t seed) {
  RandomPolicyOptions options;
  options.action = player.action;
  options.observation = player.observation;
  options.seed = seed;
  options.collect.n_sample = 5;
  return *CreateRandomPolicy(options);
}

class AsymmetricGamesTest : public testing::Test {
 protected:
  AsymmetricGamesTest() : logs_(kEnvs) {
    std::vector<EnvFactory> factories;
    for (std::vector<Recorded>& log : logs_) {
      factories.push_back([&log]() -> absl::StatusOr<std::unique_ptr<Env>> {
        return std::make_unique<RecordedPursuit>(&log);
      });
    }
    envs_ = *BaseEnvManager::Create({}, std::move(factories));
    pursuer_ = RandomPlayer(PlayerSpec(envs_->env_spec(), 0), 1);
    evader_ = RandomPlayer(PlayerSpec(envs_->env_spec(), 1), 2);
  }

  std::vector<CollectMode*> Players() const {
    return {pursuer_->collect_mode(), evader_->collect_mode()};
  }

  // Checks the rows of both players against the next records of their envs.
  void ExpectRecorded(const BattleData& data) {
    ASSERT_EQ(data.players.size(), 2);
    ExpectRowsOf(0, data.players[0], &next_of_pursuer_);
    ExpectRowsOf(1, data.players[1], &next_of_evader_);
  }

  void ExpectRowsOf(int player, const SegmentBatch& data, std::vector<size_t>* next) {
    ASSERT_THAT(ValidateSegments(data), IsOk());
    ASSERT_GT(data.size(), 0);
    EXPECT_EQ(data.rows.spec().Find("obs/action_mask").has_value(), player == 1);
    for (size_t i = 0; i < data.segments.size(); ++i) {
      const Segment& segment = data.segments[i];
      EXPECT_EQ(segment.stream % 2, player);
      const auto env = static_cast<size_t>(segment.stream / 2);
      const Recorded* last = nullptr;
      for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
        ASSERT_LT((*next)[env], logs_[env].size());
        last = &logs_[env][(*next)[env]++];
        ExpectRow(player, data.rows, row, *last);
      }
      EXPECT_EQ(segment.end, last->end);
      const auto index = static_cast<int64_t>(i);
      if (player == 0) {
        EXPECT_EQ(RowOf<float>(data.final_obs, "obs", index, 3), last->pursuer_sees);
      } else {
        EXPECT_EQ(RowOf<float>(data.final_obs, "obs/distance", index, 1), last->evader_sees);
      }
    }
  }

  static void ExpectRow(int player, const Batch& rows, int64_t row, const Recorded& step) {
    if (player == 0) {
      EXPECT_EQ(RowOf<float>(rows, "obs", row, 3), step.pursuer_saw);
      EXPECT_EQ(rows.column<float>("action")[row], step.pursuer_action);
      EXPECT_EQ(rows.column<float>("reward")[row], step.reward);
    } else {
      EXPECT_EQ(RowOf<float>(rows, "obs/distance", row, 1), step.evader_saw);
      EXPECT_EQ(RowOf<uint8_t>(rows, "obs/action_mask", row, 3), step.evader_mask);
      EXPECT_EQ(rows.column<int64_t>("action")[row], step.evader_action);
      EXPECT_EQ(rows.column<float>("reward")[row], -step.reward);
    }
  }

  template <typename T>
  static std::vector<T> RowOf(const Batch& batch, const std::string& column, int64_t row,
                              int64_t width) {
    return Values<T>(batch.column<T>(column).subspan(static_cast<size_t>(row * width),
                                                     static_cast<size_t>(width)));
  }

  std::vector<std::vector<Recorded>> logs_;
  std::unique_ptr<BaseEnvManager> envs_;
  std::unique_ptr<Policy> pursuer_;
  std::unique_ptr<Policy> evader_;
  std::vector<size_t> next_of_pursuer_ = std::vector<size_t>(kEnvs, 0);
  std::vector<size_t> next_of_evader_ = std::vector<size_t>(kEnvs, 0);
};

CollectOptions Target(int64_t target) {
  CollectOptions options;
  options.target = target;
  options.drop_extra = false;
  return options;
}

TEST_F(AsymmetricGamesTest, EachPlayerGetsItsOwnRowsOfSamples) {
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            BattleSampleSerialCollector::Create({}, envs_.get(), Players(), {}));
  for (int i = 0; i < 12; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(Target(1 + 3 * i)));
    ExpectRecorded(data);
    if (HasFailure()) return;
  }
  EXPECT_EQ(next_of_pursuer_, next_of_evader_);
  EXPECT_EQ(next_of_pursuer_[0], logs_[0].size());
}

TEST_F(AsymmetricGamesTest, EachPlayerGetsItsOwnRowsOfEpisodes) {
  DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                            BattleEpisodeSerialCollector::Create({}, envs_.get(), Players(), {}));
  DING_ASSERT_OK_AND_ASSIGN(const BattleData data, collector->Collect(Target(9)));
  EXPECT_EQ(data.players[1].segments.size(), 9);
  ExpectRecorded(data);
}

TEST_F(AsymmetricGamesTest, ASavedCollectorContinuesByteForByte) {
  const auto make = [&](EnvManager* envs, const std::vector<CollectMode*>& players) {
    return BattleSampleSerialCollector::Create({}, envs, players, {}).value();
  };
  const auto factories = std::vector<EnvFactory>(kEnvs, PursuitEnv::Create);
  const auto envs = *BaseEnvManager::Create({}, factories);
  const auto again_envs = *BaseEnvManager::Create({}, factories);
  const auto collector = make(envs.get(), Players());
  ASSERT_THAT(collector->Collect(Target(8)), IsOk());
  StateDict state;
  const auto save = [&state](const std::string& scope, const auto& part) {
    ScopedStateWriter writer(&state, scope);
    ASSERT_THAT(part.SaveState(&writer), IsOk());
  };
  save("envs", *envs);
  save("collector", *collector);
  save("pursuer", *Players()[0]);
  save("evader", *Players()[1]);
  const auto pursuer = RandomPlayer(PursuitEnv::Pursuer(), 8);
  const auto evader = RandomPlayer(PursuitEnv::Evader(), 9);
  const auto again = make(again_envs.get(), {pursuer->collect_mode(), evader->collect_mode()});
  std::vector<int> restarted;
  ScopedStateReader of_envs(&state, "envs");
  ASSERT_THAT(again_envs->LoadState(&of_envs, &restarted), IsOk());
  ScopedStateReader of_collector(&state, "collector");
  ASSERT_THAT(again->LoadState(&of_collector), IsOk());
  ScopedStateReader of_pursuer(&state, "pursuer");
  ASSERT_THAT(pursuer->collect_mode()->LoadState(&of_pursuer), IsOk());
  ScopedStateReader of_evader(&state, "evader");
  ASSERT_THAT(evader->collect_mode()->LoadState(&of_evader), IsOk());
  for (int i = 0; i < 4; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const BattleData expected, collector->Collect(Target(7)));
    DING_ASSERT_OK_AND_ASSIGN(const BattleData data, again->Collect(Target(7)));
    EXPECT_EQ(data.players[0].rows.column<float>("obs"),
              expected.players[0].rows.column<float>("obs"));
    EXPECT_EQ(data.players[1].rows.column<int64_t>("action"),
              expected.players[1].rows.column<int64_t>("action"));
  }
}

TEST_F(AsymmetricGamesTest, APolicyInTheSeatOfAnotherIsRefused) {
  const std::vector<CollectMode*> exchanged = {evader_->collect_mode(), pursuer_->collect_mode()};
  EXPECT_THAT(BattleSampleSerialCollector::Create({}, envs_.get(), exchanged, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("player 0: the policy's first output is 'action', int64[]"),
                             HasSubstr("expects 'action', float32[1]"))));
}

TEST_F(AsymmetricGamesTest, SelfPlayIsRefusedWithTheDifferences) {
  const auto make = [](EnvManager* env, const std::vector<CollectMode*>& seats) {
    return BattleSampleSerialCollector::Create({}, env, seats, ComponentDeps());
  };
  EXPECT_THAT(
      SelfPlayCollector::Create(make, envs_.get(), pursuer_->collect_mode(), "self-play"),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          AllOf(HasSubstr("self-play: one policy cannot play all players of env 'Pursuit', which "
                          "see or do different things: 'obs' is float32[3] for player 0, missing "
                          "for player 1; 'obs/distance' is missing for player 0, float32[1]"),
                HasSubstr("'obs/action_mask' is missing for player 0, bool[3] for player 1"),
                HasSubstr("'action' is float32[1] in [-2, 2] for player 0, int64[] in 0..2 for "
                          "player 1"))));
}

TEST_F(AsymmetricGamesTest, PoliciesOfBothPlayersAreEvaluated) {
  BattleInteractionSerialEvaluator::Options options;
  options.n_episode = kEnvs;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto evaluator,
      BattleInteractionSerialEvaluator::Create(options, envs_.get(),
                                               {pursuer_->eval_mode(), evader_->eval_mode()}, {}));
  DING_ASSERT_OK_AND_ASSIGN(const BattleEvalResult result, evaluator->Eval({}));
  double expected = 0;
  for (const std::vector<Recorded>& log : logs_) {
    for (const Recorded& step : log) {
      expected += step.reward / kEnvs;
      if (step.end != SegmentEnd::kCut) break;
    }
  }
  EXPECT_NEAR(result.mean_return, expected, 1e-6);
}

TEST_F(AsymmetricGamesTest, AnOpponentMayBeAnotherKindOfPlayer) {
  const auto make = [](EnvManager* env, const std::vector<EvalMode*>& seats) {
    BattleInteractionSerialEvaluator::Options options;
    options.n_episode = kEnvs;
    return BattleInteractionSerialEvaluator::Create(options, env, seats, {});
  };
  const auto opponent = [](const EnvSpec& player) {
    return [player]() -> absl::StatusOr<std::shared_ptr<Policy>> {
      return std::shared_ptr<Policy>(RandomPlayer(player, 5));
    };
  };
  DING_ASSERT_OK_AND_ASSIGN(
      const auto evaluator,
      OpponentEvaluator::Create(make, opponent(PursuitEnv::Evader()), envs_.get(),
                                pursuer_->eval_mode(), "evaluator"));
  EXPECT_THAT(evaluator->Eval({}), IsOk());
  EXPECT_THAT(OpponentEvaluator::Create(make, opponent(PursuitEnv::Pursuer()), envs_.get(),
                                        pursuer_->eval_mode(), "evaluator"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("player 1: the policy's")));
}

// The marine collector lets one of different players learn.
TEST_F(AsymmetricGamesTest, OneOfTwoDifferentPlayersLearnsInParallel) {
  for (const int learner : {0, 1}) {
    SCOPED_TRACE(learner);
    FakeLink link;
    for (int player : {0, 1}) link.Publish(0, std::make_shared<StateDict>(), player);
    ParallelCollectorParts parts;
    parts.env = envs_.get();
    parts.link = &link;
    parts.episodes_per_env = 4;
    parts.players = {{Players()[0], learner == 0}, {Players()[1], learner == 1}};
    DING_ASSERT_OK_AND_ASSIGN(const auto collector,
                              MarineParallelCollector::Create({}, {}, parts, {}));
    ASSERT_THAT(collector->Run(), IsOk());
    ASSERT_FALSE(link.sent().empty());
    for (const FakeLink::Sent& sent : link.sent()) {
      EXPECT_THAT(ValidateSegments(sent.data), IsOk());
      EXPECT_EQ(sent.data.rows.spec().field(0).name, learner == 0 ? "obs" : "obs/distance");
    }
  }
  FakeLink link;
  for (int player : {0, 1}) link.Publish(0, std::make_shared<StateDict>(), player);
  ParallelCollectorParts parts;
  parts.env = envs_.get();
  parts.link = &link;
  parts.players = {{Players()[0], true}, {Players()[1], true}};
  DING_ASSERT_OK_AND_ASSIGN(const auto both, MarineParallelCollector::Create({}, {}, parts, {}));
  EXPECT_THAT(both->Run(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("all players learn, and their rows are sent together: one policy "
                                 "cannot play all players of env 'Pursuit'")));
}

}  // namespace
}  // namespace ding
