// What commanders do with options, numbers, results and tasks that nobody should give them. Run it
// with AddressSanitizer and UndefinedBehaviorSanitizer, too. Their callbacks are in the test of the
// coordinator.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/one_vs_one_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/data/extreme_numbers.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int kMinInt = std::numeric_limits<int>::min();
constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// The commanders of these tests.
std::unique_ptr<BaseCommander> Make(const std::string& kind, const ComponentDeps& deps) {
  SoloCommander::Options solo;
  solo.eval_interval = 0;
  solo.log_interval = absl::ZeroDuration();
  if (kind == "several") solo.learner_task_space = 2;
  solo.collector_task_space = 3;
  if (kind != "one_vs_one") return SoloCommander::Create(solo, nullptr, deps).value();
  OneVsOneCommander::Options options;
  options.solo = solo;
  return OneVsOneCommander::Create(options, nullptr, deps).value();
}

class CommanderMisuse : public testing::TestWithParam<std::string> {
 protected:
  CommanderMisuse() {
    deps_.clock = &clock_;
    commander_ = Make(GetParam(), deps_);
  }

  static CollectorFinished Finished(int64_t number, double value) {
    CollectorFinished info;
    info.set_collector_done(true);
    info.set_train_iter(number);
    info.set_step_count(number);
    info.set_sample_count(number);
    info.set_abnormal_episode_count(number);
    info.set_policy_version(static_cast<uint64_t>(number));
    info.set_duration_seconds(value);
    info.add_episode_return(value);
    info.add_game_result(TaskGameResult::WINS);
    return info;
  }
  // Lets all tasks begin, and ends the collecting tasks with this number and value.
  void Play(BaseCommander* commander, int64_t number, double value) {
    const std::optional<LearnerTask> learner = commander->GetLearnerTask();
    if (learner.has_value()) learner_ = *learner;
    LearnerInfo info;
    info.set_task_id(learner_.task_id());
    info.set_learner_step(number);
    commander->UpdateLearnerInfo(learner_, info);
    (void)commander->JudgeLearnerFinish(info);
    PolicyVersion version;
    version.set_policy_id(learner_.policy_id());
    version.set_version(static_cast<uint64_t>(number));
    version.set_train_iter(number);
    version.set_key("x");
    commander->PolicyPublished(version);
    (void)commander->KeepsPolicy(version);
    for (int i = 0; i < 5; ++i) {
      const std::optional<CollectorTask> task = commander->GetCollectorTask();
      if (!task.has_value()) break;
      const CollectorFinished finished = Finished(number, value);
      (void)commander->WouldConverge(*task, finished);
      commander->FinishCollectorTask(*task, finished);
      clock_.Advance(absl::Seconds(1));
    }
    RunStatus status;
    commander->AddStatus(&status);
    (void)commander->total_collector_env_step();
    (void)commander->last_eval_value();
    (void)commander->last_eval_returns();
    (void)commander->AskAgainAfter();
  }

  SimulatedClock clock_;
  ComponentDeps deps_;
  std::unique_ptr<BaseCommander> commander_;
  LearnerTask learner_;
};

INSTANTIATE_TEST_SUITE_P(Commanders, CommanderMisuse,
                         testing::Values("solo", "several", "one_vs_one"),
                         [](const auto& test) { return test.param; });

TEST_P(CommanderMisuse, NumbersOfAnySize_DoNotOverflow) {
  for (const int64_t number : {int64_t{1}, kMax, kMax, kMin, int64_t{-1}, kMin, kMax, int64_t{0}}) {
    for (const double value : {1.0, kNan, -kInf, 1e308, -1e308, 0.0}) {
      Play(commander_.get(), number, value);
    }
  }
  Play(commander_.get(), kMax, kInf);  // This may end the training.
  Play(commander_.get(), kMax, kInf);
}

TEST_P(CommanderMisuse, TasksThatItDidNotGive_AreIgnored) {
  Play(commander_.get(), 1, 1);
  // A task of somebody else ends in the place of its own, with and without results.
  for (const bool evaluates : {false, true}) {
    CollectorTask unknown;
    unknown.set_eval_flag(evaluates);
    unknown.set_policy_id("unknown");
    unknown.set_number(kMin);
    unknown.set_confirmation(kMax);
    ASSERT_TRUE(commander_->GetCollectorTask().has_value());
    (void)commander_->WouldConverge(unknown, CollectorFinished());
    commander_->FinishCollectorTask(unknown, CollectorFinished());
    ASSERT_TRUE(commander_->GetCollectorTask().has_value());
    commander_->FinishCollectorTask(unknown, Finished(5, 5));
    ASSERT_TRUE(commander_->GetCollectorTask().has_value());
    commander_->NotifyFailCollectorTask(unknown);
  }
  commander_->UpdateLearnerInfo(LearnerTask(), LearnerInfo());
  commander_->PolicyPublished(PolicyVersion());
  commander_->NotifyFailLearnerTask(LearnerTask());
  (void)commander_->GetLearnerTask();
}

TEST_P(CommanderMisuse, TaskThatFailsAndIsFinished_IsNotGivenAgain) {
  if (GetParam() != "several") return;
  const LearnerTask failed = *commander_->GetLearnerTask();
  ASSERT_TRUE(commander_->GetLearnerTask().has_value());
  commander_->NotifyFailLearnerTask(failed);
  commander_->FinishLearnerTask(failed);
  const std::optional<LearnerTask> next = commander_->GetLearnerTask();
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(next->policy_id(), failed.policy_id());
}

TEST_P(CommanderMisuse, SavedNumbersNearTheEndsOfTheirType_AreRefusedOrWork) {
  Play(commander_.get(), 7, 1);
  StateDict saved;
  ASSERT_THAT(commander_->SaveState(&saved), IsOk());
  ForEachExtremeNumber(saved, [this](StateDict* damaged) {
    const auto other = Make(GetParam(), deps_);
    if (!other->LoadState(damaged).ok()) return;
    StateDict again;
    EXPECT_THAT(other->SaveState(&again), IsOk());
    Play(other.get(), 8, 1);
  });
}

using CommanderMisuseDeathTest = CommanderMisuse;

INSTANTIATE_TEST_SUITE_P(Commanders, CommanderMisuseDeathTest,
                         testing::Values("solo", "one_vs_one"),
                         [](const auto& test) { return test.param; });

TEST_P(CommanderMisuseDeathTest, MoreEndsThanBeginnings_EndTheProgramWithASentence) {
  EXPECT_DEATH(commander_->NotifyFailCollectorTask({}), "no task runs");
  EXPECT_DEATH(commander_->FinishLearnerTask({}), "no task runs");
  EXPECT_DEATH(
      {
        for (int i = 0; i < 5; ++i) commander_->DecreaseCollectorTaskSpace();
      },
      "decreased more often than increased");
}

TEST(CommanderOptionsMisuse, OptionsOutOfRange_AreRefused) {
  const auto refused = [](const SoloCommander::Options& options) {
    EXPECT_THAT(SoloCommander::Create(options, nullptr, {}), StatusIs(kInvalid));
    OneVsOneCommander::Options game;
    game.solo = options;
    EXPECT_THAT(OneVsOneCommander::Create(game, nullptr, {}), StatusIs(kInvalid));
  };
  using Options = SoloCommander::Options;
  const auto refuses = [&refused](auto values, auto... members) {
    for (const auto value : values) {
      for (auto Options::*const member : {members...}) {
        Options options;
        options.*member = value;
        refused(options);
      }
    }
  };
  refuses(std::vector<int>{0, -1, kMinInt}, &Options::collector_task_space,
          &Options::learner_task_space);
  refuses(std::vector<double>{-1.0, -kInf, kNan}, &Options::eval_interval,
          &Options::stop_after_seconds);
  refuses(std::vector<int64_t>{-1, kMin, kMax}, &Options::first_env_step);
  refuses(std::vector<double>{kNan}, &Options::stop_value);
  OneVsOneCommander::Options game;
  game.eval_opponents.clear();
  EXPECT_THAT(OneVsOneCommander::Create(game, nullptr, {}), StatusIs(kInvalid));
  for (const double number : {kNan, kInf, -1.0, 0.0}) {
    game = {};
    game.league.mutable_payoff()->set_decay(number);
    EXPECT_THAT(OneVsOneCommander::Create(game, nullptr, {}), StatusIs(kInvalid)) << number;
    game = {};
    game.league.mutable_metric()->set_sigma(number);
    EXPECT_THAT(OneVsOneCommander::Create(game, nullptr, {}), StatusIs(kInvalid)) << number;
  }
  for (const int64_t steps : {int64_t{0}, int64_t{-1}, kMin}) {
    game = {};
    game.league.mutable_naive_sp_player()->set_one_phase_step(steps);
    EXPECT_THAT(OneVsOneCommander::Create(game, nullptr, {}), StatusIs(kInvalid)) << steps;
    game = {};
    game.league.set_max_historical_players(static_cast<int>(steps < -1 ? kMinInt : steps));
    EXPECT_THAT(OneVsOneCommander::Create(game, nullptr, {}), StatusIs(kInvalid)) << steps;
  }
}

TEST(CommanderOptionsMisuse, LargestOptions_Work) {
  SoloCommander::Options options;
  options.collector_task_space = kMaxInt;
  options.eval_interval = kInf;
  options.stop_after_seconds = kInf;
  options.log_train_iters = kMax;
  options.log_interval = absl::InfiniteDuration();
  DING_ASSERT_OK_AND_ASSIGN(const auto commander, SoloCommander::Create(options, nullptr, {}));
  commander->IncreaseCollectorTaskSpace();
  ASSERT_TRUE(commander->GetLearnerTask().has_value());
  for (int i = 0; i < 3; ++i) {
    const std::optional<CollectorTask> task = commander->GetCollectorTask();
    ASSERT_TRUE(task.has_value());
    CollectorFinished info;
    info.set_train_iter(i == 1 ? kMin : kMax);
    commander->FinishCollectorTask(*task, info);
  }
}

}  // namespace
}  // namespace ding
