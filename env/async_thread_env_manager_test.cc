#include "ding_worker/env/async_thread_env_manager.h"

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/testing/env_manager_conformance.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

EnvManagerConformanceCase Threads(std::string name, absl::Duration inline_below) {
  EnvManagerConformanceCase threads;
  threads.name = std::move(name);
  threads.create = [inline_below](EnvManagerCore::Options options, int wait_num,
                                  std::vector<EnvFactory> factories) {
    AsyncThreadEnvManagerOptions all;
    static_cast<EnvManagerCore::Options&>(all) = std::move(options);
    all.wait_num = wait_num;
    all.num_threads = 2;
    all.inline_below = inline_below;
    return CreateAsyncThreadEnvManager(all, std::move(factories));
  };
  return threads;
}

const EnvManagerConformanceCase kCases[] = {
    Threads("ByThreads", absl::ZeroDuration()),
    Threads("InlineAfterTheFirst", absl::Hours(1)),
    Threads("AsItComes", absl::Microseconds(25)),
};

INSTANTIATE_TEST_SUITE_P(Threads, EnvManagerConformance, testing::ValuesIn(kCases),
                         EnvManagerConformanceName);
INSTANTIATE_TEST_SUITE_P(Threads, EnvManagerStateConformance, testing::ValuesIn(kCases),
                         EnvManagerConformanceName);

INSTANTIATE_TEST_SUITE_P(Threads, AsyncEnvManagerConformance, testing::Values(kCases[0]),
                         EnvManagerConformanceName);

class AsyncThreadEnvManagerTest : public testing::Test {
 protected:
  AsyncThreadEnvManagerTest() {
    for (int i = 0; i < 3; ++i) {
      scripts_.push_back(std::make_shared<ScriptedEnvScript>());
      factories_.push_back(ScriptedEnvFactory(scripts_.back()));
    }
    options_.num_threads = 2;
    options_.inline_below = absl::ZeroDuration();
  }

  absl::StatusOr<const Timesteps*> StepAll(EnvManager* manager) {
    const std::vector<int> env_ids = {0, 1, 2};
    std::byte* const column = reinterpret_cast<std::byte*>(actions_);
    return manager->Step(env_ids, ColumnsView(manager->env_spec().action.get(), &column, 0, 3));
  }

  AsyncThreadEnvManagerOptions options_;
  std::vector<std::shared_ptr<ScriptedEnvScript>> scripts_;
  std::vector<EnvFactory> factories_;
  int64_t actions_[3] = {};
};

int Threads() {
  int count = 0;
  DIR* const directory = opendir("/proc/self/task");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

TEST_F(AsyncThreadEnvManagerTest, CloseEndsTheThreads) {
  // The first thread may bring one of the sanitizer; a thread that was joined is listed for a
  // moment.
  std::thread([] {}).join();
  absl::SleepFor(absl::Milliseconds(100));
  const int before = Threads();
  DING_ASSERT_OK_AND_ASSIGN(const auto manager, CreateAsyncThreadEnvManager(options_, factories_));
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(manager->Launch(), IsOk());
    EXPECT_GE(Threads(), before + 2);
    ASSERT_THAT(StepAll(manager.get()), IsOk());
    manager->Close();
    while (Threads() > before) absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(scripts_[0]->log.alive, 0);
}

TEST_F(AsyncThreadEnvManagerTest, AnEnvThatHangsIsNamed) {
  std::thread([] {}).join();
  absl::SleepFor(absl::Milliseconds(100));
  const int before = Threads();
  options_.hang_timeout = absl::Milliseconds(100);
  DING_ASSERT_OK_AND_ASSIGN(auto manager, CreateAsyncThreadEnvManager(options_, factories_));
  ASSERT_THAT(manager->Launch(), IsOk());
  scripts_[1]->hold_steps = true;
  const auto hangs =
      IsError(absl::StatusCode::kDeadlineExceeded, "env 1 (Scripted): busy for more than 100ms");
  EXPECT_THAT(StepAll(manager.get()), hangs);
  EXPECT_EQ(manager->env_state(0), EnvState::kNeedReset);
  EXPECT_THAT(manager->Reset(), hangs);
  manager->Close();
  EXPECT_THAT(manager->Launch(), hangs) << "it is still there";
  manager.reset();
  // The thread that was left behind ends with the pool that it owns.
  scripts_[1]->hold_steps = false;
  while (Threads() > before) absl::SleepFor(absl::Milliseconds(1));
}

TEST_F(AsyncThreadEnvManagerTest, ReportsAllProblemsOfOptions) {
  options_.num_threads = -1;
  options_.wait_num = 4;
  options_.hang_timeout = absl::ZeroDuration();
  options_.max_retry = 0;
  EXPECT_THAT(CreateAsyncThreadEnvManager(options_, factories_),
              IsInvalid("num_threads is -1", "wait_num is 4, expected 0 (all) to 3",
                        "hang_timeout is 0", "max_retry is 0"));
}

}  // namespace
}  // namespace ding
