#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using End = FakeEnvManager::End;
using Episode = FakeEnvManager::Episode;
using Options = BattleInteractionSerialEvaluator::Options;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

FakeEnvManager::Options Games(int env_num, int players) {
  FakeEnvManager::Options options;
  options.env_num = env_num;
  options.players = players;
  // Env i plays i + 1 steps: the return of its first episode is 0 + 1 + ... + i.
  options.script = [](int env_id, int64_t) { return Episode{env_id + 1, End::kTerminated}; };
  return options;
}

struct Fixture {
  explicit Fixture(FakeEnvManager::Options env_options, Options options = {})
      : games(std::move(env_options)) {
    deps.metrics = sink;
    deps.name = "eval";
    evaluator = *BattleInteractionSerialEvaluator::Create(options, &games, {&ours, &theirs}, deps);
  }
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  FakeEnvManager games;
  FakePolicy ours;
  FakePolicy theirs;
  std::unique_ptr<BattleInteractionSerialEvaluator> evaluator;
};

TEST(BattleInteractionSerialEvaluatorTest, Eval_GameWithoutAnEnd_IsCutAndCountsForAllPlayers) {
  FakeEnvManager::Options endless = Games(1, 2);
  endless.script = [](int, int64_t) { return Episode{1000000, End::kTerminated}; };
  Options options;
  options.n_episode = 2;
  options.max_episode_steps = 3;
  Fixture f(endless, options);
  DING_ASSERT_OK_AND_ASSIGN(const BattleEvalResult result, f.evaluator->Eval(EvalOptions()));
  EXPECT_THAT(result.episode_return, ElementsAre(ElementsAre(303, 603), ElementsAre(606, 1206)));
}

TEST(BattleInteractionSerialEvaluatorTest, JudgesPlayerZero) {
  Options options;
  options.n_episode = 3;
  options.stop_value = 1.3;
  Fixture f(Games(3, 2), options);
  std::vector<std::string> saved;
  EvalOptions eval;
  eval.train_iter = 5;
  eval.envstep = 50;
  eval.save_checkpoint = [&](absl::string_view name) {
    saved.emplace_back(name);
    return absl::OkStatus();
  };
  // Launch() began episode 0, and Eval() begins episode 1, whose steps give 100, 101, ...
  DING_ASSERT_OK_AND_ASSIGN(const BattleEvalResult result, f.evaluator->Eval(eval));
  EXPECT_THAT(result.episode_return,
              ElementsAre(ElementsAre(100, 201, 303), ElementsAre(200, 402, 606)));
  EXPECT_DOUBLE_EQ(result.mean_return, 604 / 3.0);
  EXPECT_TRUE(result.stop);
  EXPECT_THAT(saved, ElementsAre("ckpt_best"));
  EXPECT_EQ(f.evaluator->best_return(), result.mean_return);
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/reward_mean"), ElementsAre(604 / 3.0));
  EXPECT_THAT(f.sink->ValuesOf("eval_step/reward1_max"), ElementsAre(606));
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/envstep_count"), ElementsAre(6)) << "played on";
  EXPECT_THAT(f.sink->ValuesOf("eval_iter/eval_episode_return_mean"), ElementsAre(604 / 3.0));
}

TEST(BattleInteractionSerialEvaluatorTest, PoliciesPlayTheirOwnPlayer) {
  Fixture f(Games(2, 2));
  std::vector<int> seats;
  f.theirs.rows = 1;
  f.theirs.on_forward = [&](absl::Span<const int> ids) {
    seats.assign(ids.begin(), ids.end());
    return absl::OkStatus();
  };
  EvalOptions eval;
  eval.n_episode = 2;
  eval.policy_settings.Set("eps", 0.5);
  ASSERT_THAT(f.evaluator->Eval(eval), IsOk());
  EXPECT_THAT(seats, ElementsAre(3)) << "the last step is env 1's";
  EXPECT_EQ(f.theirs.last_settings.Get("eps"), 0.5);
  int64_t row = 0;
  for (const FakeEnvManager::Event& event : f.games.events()) {
    EXPECT_EQ(event.action, row % 4);
    EXPECT_THAT(event.other_actions, ElementsAre((row + 1) % 4));
    ++row;
  }
}

TEST(BattleInteractionSerialEvaluatorTest, APlayerThatEndedBeforeItsGameIsNotAsked) {
  FakeEnvManager::Options games = Games(3, 2);
  games.subsets = true;
  games.script = [](int env_id, int64_t) {
    // Player 1 is out after the first step, in env 2 player 0.
    const std::pair<int64_t, End> out = {1, End::kTerminated};
    const std::pair<int64_t, End> stays = {0, End::kTerminated};
    return Episode{4, End::kTruncated,
                   env_id == 2 ? std::vector{out, stays} : std::vector{stays, out}};
  };
  Fixture f(games);
  EvalOptions eval;
  eval.n_episode = 3;
  DING_ASSERT_OK_AND_ASSIGN(const BattleEvalResult result, f.evaluator->Eval(eval));
  EXPECT_THAT(result.episode_return,
              ElementsAre(ElementsAre(406, 406, 100), ElementsAre(200, 200, 812)));
  EXPECT_EQ(f.ours.rows, 4 + 4 + 1);
  EXPECT_EQ(f.theirs.rows, 1 + 1 + 4);
  // Each policy numbers the rows that it acts for, and acts accordingly.
  std::vector<int64_t> ours, theirs;
  for (const FakeEnvManager::Event& event : f.games.events()) {
    if (event.plays[0]) ours.push_back(event.action);
    if (event.plays[1]) theirs.push_back(event.other_actions[0]);
  }
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(ours[i], static_cast<int64_t>(i % 4));
  for (size_t i = 0; i < theirs.size(); ++i) EXPECT_EQ(theirs[i], static_cast<int64_t>(i % 4));
}

TEST(BattleInteractionSerialEvaluatorTest, AbnormalEpisodesAreBounded) {
  // D29.
  FakeEnvManager::Options games = Games(2, 2);
  games.script = [](int env_id, int64_t) {
    return Episode{1, env_id == 1 ? End::kAbnormal : End::kTerminated};
  };
  Fixture f(games);
  EXPECT_THAT(f.evaluator->Eval({}), StatusIs(absl::StatusCode::kResourceExhausted,
                                              AllOf(HasSubstr("env 1"), HasSubstr("10 times"))));
}

TEST(BattleInteractionSerialEvaluatorTest, ContinuesFromASavedState) {
  Fixture f(Games(2, 2));
  ASSERT_TRUE(f.evaluator->ShouldEval(100));
  ASSERT_THAT(f.evaluator->Eval({}), IsOk());
  StateDict state;
  ASSERT_THAT(f.evaluator->SaveState(&state), IsOk());
  Fixture resumed(Games(2, 2));
  ASSERT_THAT(resumed.evaluator->LoadState(&state), IsOk());
  EXPECT_EQ(resumed.evaluator->best_return(), f.evaluator->best_return());
  EXPECT_FALSE(resumed.evaluator->ShouldEval(120));
}

TEST(BattleInteractionSerialEvaluatorTest, ChecksItsArguments) {
  Fixture f(Games(2, 2));
  Options bad;
  bad.eval_freq = 0;
  EXPECT_THAT(BattleInteractionSerialEvaluator::Create(bad, nullptr, {&f.ours, nullptr}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("eval_freq is 0"), HasSubstr("no env manager"),
                             HasSubstr("no policy for some player"))));
  EXPECT_THAT(BattleInteractionSerialEvaluator::Create({}, &f.games, {&f.ours}, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 policies")));
  EvalOptions eval;
  eval.force_render = true;
  EXPECT_THAT(f.evaluator->Eval(eval),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("force_render")));
}

}  // namespace
}  // namespace ding
