// Tests of the info fields that an env declares (EnvSpec::info): all env managers, and what is
// refused.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/process/process_message.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/testing/env_conformance.h"
#include "ding_worker/env/testing/telling_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

constexpr int kEnvs = 3;

INSTANTIATE_TEST_SUITE_P(Telling, EnvConformance,
                         testing::Values(EnvConformanceCase{"telling", TellingEnv::Make}),
                         EnvConformanceName);

struct ManagerCase {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<EnvManager>>(std::vector<EnvFactory>)> create;
};

class InfoTest : public testing::TestWithParam<ManagerCase> {
 protected:
  static absl::StatusOr<std::unique_ptr<EnvManager>> Launched(std::vector<EnvFactory> factories) {
    auto manager = GetParam().create(std::move(factories));
    if (!manager.ok()) return manager;
    // Episodes of 3, 4 and 5 steps.
    const std::vector<uint64_t> seeds = {0, 1, 2};
    EXPECT_THAT((*manager)->Seed(seeds, /*dynamic=*/false), IsOk());
    const absl::Status launched = (*manager)->Launch();
    if (!launched.ok()) return launched;
    return manager;
  }
};

absl::StatusOr<const Timesteps*> StepEnvs(EnvManager* manager, const std::vector<int>& ids,
                                          const std::vector<int64_t>& actions) {
  auto rows =
      *BatchBuilder::Create(manager->env_spec().action, static_cast<int64_t>(actions.size()));
  std::copy(actions.begin(), actions.end(), rows.column<int64_t>(0).begin());
  return manager->Step(ids, rows.view());
}

TEST_P(InfoTest, Step_DeclaredFields_AreColumnsOfTheTimesteps) {
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, Launched({kEnvs, TellingEnv::Make}));
  ASSERT_NE(manager->env_spec().info, nullptr);
  std::vector<int64_t> length = {3, 4, 5};
  std::vector<int64_t> step(kEnvs, 0);
  for (int64_t i = 0; i < 24; ++i) {
    // Not all envs, and in another order.
    const std::vector<int> ids = i % 3 == 0 ? std::vector<int>{2, 0} : std::vector<int>{0, 1, 2};
    const std::vector<int64_t> actions(ids.size(), i % 2);
    DING_ASSERT_OK_AND_ASSIGN(const Timesteps* const steps, StepEnvs(manager.get(), ids, actions));
    ASSERT_EQ(steps->info.rows(), static_cast<int64_t>(ids.size()));
    EXPECT_TRUE(steps->info.spec() == *manager->env_spec().info);
    size_t finished = 0;
    for (size_t row = 0; row < ids.size(); ++row) {
      const auto env = static_cast<size_t>(ids[row]);
      const int64_t t = ++step[env];
      const RowView info = steps->info.row(static_cast<int64_t>(row));
      EXPECT_EQ(info.scalar<int64_t>(0), t);
      EXPECT_THAT(info.field<double>(1), ElementsAre(t, i % 2));
      EXPECT_EQ(info.scalar<uint8_t>(2), i % 2);
      EXPECT_THAT(info.field<int32_t>(3), ElementsAre(t, 2 * t, 3 * t, 4 * t));
      if (t != length[env]) continue;
      // A metric of the episode has the last value of each single number.
      ASSERT_LT(finished, steps->finished.size());
      const FinishedEpisode& episode = steps->finished[finished++];
      EXPECT_EQ(episode.info.Get("step"), t);
      EXPECT_EQ(episode.info.Get("seen"), i % 2);
      EXPECT_EQ(episode.info.Get("position"), std::nullopt);
      step[env] = 0;
    }
    EXPECT_EQ(finished, steps->finished.size());
  }
}

TEST_P(InfoTest, Step_FieldsChange_IsAnErrorWithNameFoundAndExpected) {
  const EnvFactory changes = []() -> absl::StatusOr<std::unique_ptr<Env>> {
    return std::make_unique<TellingEnv>([](int64_t step, StepResult* result) {
      if (step < 2) return;
      result->info_row.Clear(*MakeSpec({Scalar("info/steps", DType::kInt64)}));
    });
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, Launched({kEnvs, changes}));
  ASSERT_THAT(StepEnvs(manager.get(), {0, 1, 2}, {0, 0, 0}), IsOk());
  EXPECT_THAT(StepEnvs(manager.get(), {0, 1, 2}, {0, 0, 0}).status(),
              IsError(absl::StatusCode::kInternal, "env 0 (Telling)", "info/steps", "info/step"));
}

TEST_P(InfoTest, Step_FieldOfAnotherType_IsAnError) {
  const EnvFactory wrong = []() -> absl::StatusOr<std::unique_ptr<Env>> {
    return std::make_unique<TellingEnv>(
        [](int64_t, StepResult* result) { result->info_row.field<float>(1)[0] = 1; });
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, Launched({kEnvs, wrong}));
  EXPECT_THAT(StepEnvs(manager.get(), {0, 1, 2}, {0, 0, 0}).status(),
              IsError(absl::StatusCode::kInternal, "info/position", "float64", "float32"));
}

INSTANTIATE_TEST_SUITE_P(
    Managers, InfoTest,
    testing::Values(
        ManagerCase{
            "Base",
            [](std::vector<EnvFactory> factories) -> absl::StatusOr<std::unique_ptr<EnvManager>> {
              return BaseEnvManager::Create({}, std::move(factories));
            }},
        ManagerCase{
            "Threads",
            [](std::vector<EnvFactory> factories) -> absl::StatusOr<std::unique_ptr<EnvManager>> {
              return CreateAsyncThreadEnvManager({}, std::move(factories));
            }},
        ManagerCase{
            "Processes",
            [](std::vector<EnvFactory> factories) -> absl::StatusOr<std::unique_ptr<EnvManager>> {
              return CreateSubprocessEnvManager({}, std::move(factories));
            }}),
    [](const testing::TestParamInfo<ManagerCase>& info) { return info.param.name; });

TEST(InfoSpecTest, OtherNamesAreRefused) {
  EnvSpec spec = TellingEnv().spec();
  EXPECT_THAT(ValidateEnvSpec(spec), IsOk());
  spec.info = *MakeSpec({Scalar("distance", DType::kFloat32)});
  EXPECT_THAT(ValidateEnvSpec(spec),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "env 'Telling': info field 'distance' must be named 'info/<name>'"));
}

TEST(InfoSpecTest, ReachesOtherProcesses) {
  ProcessMessageWriter out;
  Put(TellingEnv().spec(), &out);
  ProcessMessageReader in(out.bytes());
  EnvSpec spec;
  ASSERT_THAT(TakeEnvSpec(&in, &spec), IsOk());
  ASSERT_NE(spec.info, nullptr);
  EXPECT_TRUE(*spec.info == *TellingEnv().spec().info);
}

}  // namespace
}  // namespace ding
