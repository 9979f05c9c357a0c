#include "ding_worker/worker/run/goal_problems.h"

#include <string>
#include <utility>
#include <vector>

#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/worker/experiment.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ExperimentConfig Config(const std::string& buffer) {
  ExperimentConfig config;
  config.mutable_policy()->mutable_other()->mutable_replay_buffer()->set_type(buffer);
  return config;
}

EnvSpec EnvWith(std::vector<FieldSpec> observation) {
  EnvSpec env;
  env.name = "Mine-v0";
  env.observation = *MakeSpec(std::move(observation));
  return env;
}

TEST(GoalProblemsTest, HindsightNeedsAnEnvWithGoals) {
  const EnvSpec goals = EnvWith({Box("obs/achieved_goal", {2}), Box("obs/desired_goal", {2})});
  EXPECT_THAT(FindGoalProblems(Config("hindsight"), goals), IsEmpty());
  EXPECT_THAT(FindGoalProblems(Config("hindsight"), EnvWith({Box("obs", {4})})),
              ElementsAre(AllOf(HasSubstr("policy.other.replay_buffer.type is 'hindsight'"),
                                HasSubstr("env 'Mine-v0' has none"),
                                HasSubstr("there is no 'obs/achieved_goal'"))));
  EXPECT_THAT(FindGoalProblems(Config("hindsight"), EnvWith({Box("obs/achieved_goal", {2}),
                                                             Box("obs/desired_goal", {3})})),
              ElementsAre(HasSubstr("expected the same shape")));
  EXPECT_THAT(FindGoalProblems(Config("naive"), EnvWith({Box("obs", {4})})), IsEmpty());
}

TEST(GoalProblemsTest, HindsightNeedsARewardOfOneNumber) {
  EnvSpec env = EnvWith({Box("obs/achieved_goal", {2}), Box("obs/desired_goal", {2})});
  env.reward_shape = {3};
  EXPECT_THAT(FindGoalProblems(Config("hindsight"), env),
              ElementsAre(HasSubstr("env 'Mine-v0' has one of 3 components")));
}

}  // namespace
}  // namespace ding
