#include <string>
#include <utility>
#include <vector>

#include "ding_worker/collector/serial.pb.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/replay_buffer/hindsight_buffer.pb.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/setup/setup_problems.h"
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

// A config of testdata/simulators.py.
GymnasiumConfig Goal(const std::string& kwargs) {
  GymnasiumConfig config;
  config.set_entry_point("simulators:Goal");
  config.set_kwargs(kwargs);
  config.set_python("/usr/bin/python3");
  config.add_python_path("env/gymnasium/testdata");
  return config;
}

TEST(GoalProblemsTest, HindsightMustRewardAsThePythonEnvDoes) {
  const EnvSpec env = EnvWith({Box("obs/achieved_goal", {2}), Box("obs/desired_goal", {2})});
  ExperimentConfig config = Config("hindsight");
  config.mutable_env()->set_type("gymnasium");
  HindsightBufferConfig buffer;
  buffer.set_radius(0.05);
  const auto problems = [&](const std::string& kwargs) {
    config.mutable_env()->mutable_params()->PackFrom(Goal(kwargs));
    config.mutable_policy()->mutable_other()->mutable_replay_buffer()->mutable_params()->PackFrom(
        buffer);
    return FindGoalProblems(config, env);
  };
  EXPECT_THAT(problems("{}"), IsEmpty());
  EXPECT_THAT(problems(R"({"at_goal": 10})"),
              ElementsAre(AllOf(HasSubstr("compute_reward() of env 'Mine-v0', for the achieved "
                                          "goal [0, 0] and the desired one [0, "),
                                HasSubstr("set reward_at_goal: 10"),
                                HasSubstr("2 different rewards, from -1 to 10"))));
  EXPECT_THAT(problems(R"({"elsewhere": -2})"), ElementsAre(HasSubstr("set reward_elsewhere: -2")));
  EXPECT_THAT(problems(R"({"radius": 0.04})"), ElementsAre(HasSubstr("or another radius")));
  EXPECT_THAT(problems(R"({"radius": 0.06})"), ElementsAre(HasSubstr("or another radius")));
  EXPECT_THAT(problems(R"({"kind": "maximum"})"), ElementsAre(HasSubstr("use another buffer")));
  EXPECT_THAT(problems(R"({"kind": "dense"})"),
              ElementsAre(AllOf(HasSubstr("use another buffer"), HasSubstr("different rewards"))));
  EXPECT_THAT(problems(R"({"kind": "raise"})"), IsEmpty()) << "rows are checked one by one";
  buffer.set_reward_at_goal(10);
  buffer.set_reward_elsewhere(-2);
  buffer.set_radius(0.5);
  EXPECT_THAT(problems(R"({"at_goal": 10, "elsewhere": -2, "radius": 0.5})"), IsEmpty());
  // What a collector makes of rewards is not known before.
  EpisodeCollectorParams collector;
  collector.set_reward_shaping("mine");
  config.mutable_policy()->mutable_collect()->mutable_collector()->mutable_params()->PackFrom(
      collector);
  EXPECT_THAT(problems("{}"), IsEmpty());
}

}  // namespace
}  // namespace ding
