#include "ding_worker/coordinator/commander/commander_registry.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/params_test.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/one_vs_one_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/metrics/sink.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CommanderRegistry, CommandersAreFoundByName) {
  EXPECT_THAT(CommanderRegistry().Names(), ElementsAre("one_vs_one", "solo"));
  CommanderConfig config;
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<BaseCommander> commander,
                            create_parallel_commander(config, ComponentDeps()));
  EXPECT_NE(dynamic_cast<SoloCommander*>(commander.get()), nullptr);
  DING_ASSERT_OK_AND_ASSIGN(const CommanderDescriptor descriptor,
                            get_parallel_commander_cls(config));
  EXPECT_TRUE(descriptor.for_data_sets);
  EXPECT_FALSE(descriptor.plays_games);
  config.set_type("one_vs_one");
  DING_ASSERT_OK_AND_ASSIGN(commander, create_parallel_commander(config, ComponentDeps()));
  EXPECT_NE(dynamic_cast<OneVsOneCommander*>(commander.get()), nullptr);
  EXPECT_TRUE(get_parallel_commander_cls(config)->plays_games);
  config.set_type("royale");
  EXPECT_THAT(
      create_parallel_commander(config, ComponentDeps()),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("this program has: one_vs_one, solo")));
}

TEST(CommanderRegistry, DefaultsAreThoseOfTheOriginal) {
  CommanderConfig config;
  EXPECT_EQ(config.type(), "solo");
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<BaseCommander> commander,
                            create_parallel_commander(config, ComponentDeps()));
  EXPECT_EQ(dynamic_cast<SoloCommander&>(*commander).collector_space().max(), 1);
  config.set_type("one_vs_one");
  DING_ASSERT_OK_AND_ASSIGN(commander, create_parallel_commander(config, ComponentDeps()));
  EXPECT_EQ(dynamic_cast<OneVsOneCommander&>(*commander).collector_space().max(), 2);
  EXPECT_EQ(config.learner_task_space(), 1);
  EXPECT_EQ(config.eval_interval(), 60);
  const CoordinatorConfig coordinator;
  EXPECT_EQ(coordinator.collector_task_timeout(), 30);
  EXPECT_EQ(coordinator.learner_task_timeout(), 600);
}

TEST(CommanderRegistry, ReadsTheConfig) {
  CommanderConfig config;
  config.set_collector_task_space(3);
  config.mutable_learner_resources()->set_gpus(4);
  CommanderDeps deps;
  deps.stop_value = 0;
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseCommander> commander,
                            create_parallel_commander(config, deps));
  auto* const solo = dynamic_cast<SoloCommander*>(commander.get());
  ASSERT_NE(solo, nullptr);
  EXPECT_EQ(solo->collector_space().max(), 3);
  EXPECT_EQ(solo->GetLearnerTask()->resources().gpus(), 4);
  CollectorFinished finished;
  finished.add_episode_return(1);
  finished.set_train_iter(1);
  EXPECT_TRUE(solo->FinishCollectorTask(*solo->GetCollectorTask(), finished));
  config.set_learner_task_space(2);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseCommander> of_two,
                            create_parallel_commander(config, deps));
  EXPECT_EQ(dynamic_cast<SoloCommander&>(*of_two).learner_space().max(), 2);
  config.set_eval_interval(-1);
  EXPECT_THAT(create_parallel_commander(config, deps),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("eval_interval is -1")));
}

TEST(CommanderRegistry, ReadsTheConfigOfALeague) {
  CommanderConfig config;
  config.set_type("one_vs_one");
  config.set_collector_task_space(3);
  config.mutable_league()->add_player_category("fast");
  config.mutable_league()->mutable_naive_sp_player()->set_one_phase_step(7);
  CommanderDeps deps;
  deps.eval_opponents = {{"easy", std::nullopt}, {"hard", 0.5}};
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseCommander> commander,
                            create_parallel_commander(config, deps));
  auto& league = dynamic_cast<OneVsOneCommander&>(*commander);
  EXPECT_EQ(league.collector_space().max(), 3);
  EXPECT_EQ(league.league().active().id(), "naive_sp_player_fast_0");
  EXPECT_EQ(league.eval_opponent().name, "easy");

  config.mutable_league()->mutable_active_players()->set_naive_sp_player(0);
  EXPECT_THAT(create_parallel_commander(config, deps),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("one_vs_one commander: a league without players")));
  config.mutable_league()->mutable_payoff()->set_type("solitaire");
  EXPECT_THAT(create_parallel_commander(config, deps),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("league.payoff.type")));
}

}  // namespace
}  // namespace ding
