// Tests that every env manager must pass, as suites to instantiate. They drive three scripted envs
// through the interface. One test compares the results bit for bit with those of BaseEnvManager.
// Therefore an asynchronous manager is tested in the mode in which it waits for all envs.
//
// AsyncEnvManagerConformance is for managers that can return before all envs have answered.
//
// Example (the test's target depends on this one, which has `alwayslink`):
//   INSTANTIATE_TEST_SUITE_P(Base, EnvManagerConformance, testing::Values(kBase), CaseName);
//   INSTANTIATE_TEST_SUITE_P(Base, EnvManagerStateConformance, testing::Values(kBase), CaseName);
#ifndef DING_WORKER_ENV_TESTING_ENV_MANAGER_CONFORMANCE_H_
#define DING_WORKER_ENV_TESTING_ENV_MANAGER_CONFORMANCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "gtest/gtest.h"

namespace ding {

struct EnvManagerConformanceCase {
  std::string name;
  // Creates a manager. `wait_num` 0 waits for all envs; only AsyncEnvManagerConformance passes
  // another number.
  std::function<absl::StatusOr<std::unique_ptr<EnvManager>>(EnvManagerCore::Options, int wait_num,
                                                            std::vector<EnvFactory>)>
      create;
  // Whether the envs run in the process of the test.
  bool in_this_process = true;
  // Whether the envs after a failing env are not stepped.
  bool one_by_one = false;
};

// Lets GoogleTest print the name of a case instead of its bytes.
inline void PrintTo(const EnvManagerConformanceCase& of_test, std::ostream* out) {
  *out << of_test.name;
}

inline std::string EnvManagerConformanceName(
    const testing::TestParamInfo<EnvManagerConformanceCase>& info) {
  return info.param.name;
}

// Creates and drives a manager of three scripted envs.
class EnvManagerConformance : public testing::TestWithParam<EnvManagerConformanceCase> {
 protected:
  EnvManagerConformance() {
    for (int i = 0; i < 3; ++i) scripts_.push_back(std::make_shared<ScriptedEnvScript>());
    options_.sleep = [this](absl::Duration time) { slept_.push_back(time); };
  }

  std::vector<EnvFactory> Factories() {
    std::vector<EnvFactory> factories;
    for (const auto& script : scripts_) factories.push_back(ScriptedEnvFactory(script));
    return factories;
  }

  std::unique_ptr<EnvManager> Create() {
    absl::StatusOr<std::unique_ptr<EnvManager>> manager =
        GetParam().create(options_, 0, Factories());
    EXPECT_THAT(manager, IsOk());
    return manager.ok() ? *std::move(manager) : nullptr;
  }

  std::unique_ptr<EnvManager> Launched() {
    std::unique_ptr<EnvManager> manager = Create();
    EXPECT_THAT(manager->Launch(), IsOk());
    return manager;
  }

  // Steps `env_ids` with `actions`; a missing action is 0.
  absl::StatusOr<const Timesteps*> Step(EnvManager* manager, const std::vector<int>& env_ids,
                                        std::vector<int64_t> actions = {}) {
    actions.resize(env_ids.size());
    std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
    return manager->Step(env_ids, ColumnsView(manager->env_spec().action.get(), &column, 0,
                                              static_cast<int64_t>(actions.size())));
  }
  absl::StatusOr<const Timesteps*> StepReady(EnvManager* manager) {
    const ReadyObs ready = manager->ready_obs();
    return Step(manager, std::vector<int>(ready.env_ids.begin(), ready.env_ids.end()));
  }

  static std::vector<EnvState> States(const EnvManager& manager) {
    std::vector<EnvState> states;
    for (int i = 0; i < manager.env_num(); ++i) states.push_back(manager.env_state(i));
    return states;
  }

  // Row `i` of the ready observations.
  static std::vector<float> Row(const ReadyObs& ready, int i) {
    const absl::Span<const float> row = ready.obs.row(i).field<float>(0);
    return {row.begin(), row.end()};
  }

  EnvManagerCore::Options options_;
  std::vector<std::shared_ptr<ScriptedEnvScript>> scripts_;
  std::vector<absl::Duration> slept_;
};

class EnvManagerStateConformance : public EnvManagerConformance {
 protected:
  EnvManagerStateConformance() {
    options_.episode_num = 3;
    options_.auto_reset = true;
    scripts_[1]->episode_length = 7;
    scripts_[2]->episode_length = 2;
  }

  // A manager in the middle of episodes, with one env done.
  std::unique_ptr<EnvManager> Midway() {
    auto manager = Create();
    EXPECT_THAT(manager->Seed({11, 22, 33}, true), IsOk());
    EXPECT_THAT(manager->Launch(), IsOk());
    EXPECT_THAT(manager->Reset({EnvReset{1, NamedValues{{"level", 3}, {"wind", 0.5}}}}), IsOk());
    for (int i = 0; i < 8; ++i) EXPECT_THAT(StepReady(manager.get()), IsOk());
    return manager;
  }

  std::vector<int> restarted_;
};

class AsyncEnvManagerConformance : public EnvManagerConformance {
 protected:
  std::unique_ptr<EnvManager> LaunchedWith(int wait_num) {
    absl::StatusOr<std::unique_ptr<EnvManager>> manager =
        GetParam().create(options_, wait_num, Factories());
    EXPECT_THAT(manager, IsOk());
    EXPECT_THAT((*manager)->Launch(), IsOk());
    return *std::move(manager);
  }
};

}  // namespace ding

#endif  // DING_WORKER_ENV_TESTING_ENV_MANAGER_CONFORMANCE_H_
