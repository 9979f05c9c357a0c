#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/tasks/derived_config.h"
#include "ding_worker/worker/tasks/parallel_problems.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// They name modules of the programs only, and set no field that has no effect.
TEST(ShippedConfigsTest, AreValidAndSetNoUnusedFields) {
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> files, ListDirectory("worker/configs"));
  for (const std::string& file : files) {
    DING_ASSERT_OK_AND_ASSIGN(const ExperimentConfig config,
                              LoadExperimentConfig(JoinPath("worker/configs", file), {}));
    const std::string& policy = config.policy().type();
    if (absl::StrContains(file, "parallel") || absl::StrContains(file, "soak")) {
      EXPECT_THAT(FindParallelProblems(config), testing::IsEmpty()) << file;
      if (policy == "ppo" || policy == "a2c") {
        EXPECT_THAT(FindUnusedFields(config, RunKind::kOnPolicyParallel), testing::IsEmpty())
            << file;
      }
      continue;
    }
    const RunKind kind = !config.data_set().path().empty()    ? RunKind::kSupervised
                         : policy == "ppo" || policy == "a2c" ? RunKind::kOnPolicy
                                                              : RunKind::kSerial;
    EXPECT_THAT(FindUnusedFields(config, kind), testing::IsEmpty()) << file;
  }
}

// The configs of which a parallel run is refused, with the reasons.
const std::map<std::string, std::string>& RefusedInParallel() {
  static const auto* const refused = new std::map<std::string, std::string>{
      {"reach_goal_her_sac", "policy.other.replay_buffer.type is 'hindsight', which does not tell"},
  };
  return *refused;
}

TEST(ShippedConfigsTest, SerialOnesRunInParallelOrSayWhyNot) {
  DING_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> files, ListDirectory("worker/configs"));
  for (const std::string& file : files) {
    if (absl::StrContains(file, "parallel") || absl::StrContains(file, "soak")) continue;
    DING_ASSERT_OK_AND_ASSIGN(ExperimentConfig config,
                              LoadExperimentConfig(JoinPath("worker/configs", file), {}));
    const std::string& policy = config.policy().type();
    const bool on_policy = policy == "ppo" || policy == "a2c";
    DeriveParallelConfig(on_policy, &config);
    std::vector<std::string> problems = FindParallelProblems(config);
    if (on_policy) {
      for (std::string& problem : FindUnusedFields(config, RunKind::kOnPolicyParallel)) {
        problems.push_back(std::move(problem));
      }
    }
    const auto refused = RefusedInParallel().find(file.substr(0, file.find('.')));
    if (refused == RefusedInParallel().end()) {
      EXPECT_THAT(problems, testing::IsEmpty()) << file;
    } else {
      EXPECT_THAT(problems, testing::ElementsAre(testing::HasSubstr(refused->second))) << file;
    }
    EXPECT_THAT(config.system().derived(), testing::Not(testing::IsEmpty())) << file;
    ExperimentConfig again = config;
    DeriveParallelConfig(on_policy, &again);
    EXPECT_EQ(config.SerializeAsString(), again.SerializeAsString()) << file;
  }
}

}  // namespace
}  // namespace ding
