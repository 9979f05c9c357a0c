#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/unused_fields.h"
#include "ding_worker/worker/experiment.pb.h"
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

}  // namespace
}  // namespace ding
