#include "ding_worker/env/env_manager.h"

#include <dirent.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/async_thread_env_manager.h"
#include "ding_worker/env/base_env_manager.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/process/env_process_pool.h"
#include "ding_worker/env/testing/env_manager_conformance.h"
#include "ding_worker/env/testing/scripted_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

EnvSpec SpecWith(FieldSpec action) {
  EnvSpec spec;
  spec.name = "Mine";
  spec.observation = *MakeSpec({Box("obs", {1})});
  spec.action = *MakeSpec({std::move(action)});
  return spec;
}

// Checks one row of `values` each for envs 4 and 7.
absl::Status CheckBox(const FieldSpec& action, const std::vector<float>& values) {
  const EnvSpec spec = SpecWith(action);
  BatchBuilder rows = *BatchBuilder::Create(spec.action, 2);
  for (size_t i = 0; i < values.size(); ++i) rows.column<float>(0)[i] = values[i];
  return CheckActions(spec, {4, 7}, rows.view());
}

auto IsIllegal(const std::string& env, const std::string& value) {
  return IsInvalid(env + ": action " + value + " is not legal");
}

TEST(CheckActionsTest, ChecksABoxWithOneBoundForAllElements) {
  const FieldSpec box = Box("action", {2}, {-2}, {2});
  EXPECT_THAT(CheckBox(box, {-2, 2, 0, 1}), IsOk());
  EXPECT_THAT(CheckBox(box, {0, 2.5, 0, 0}), IsIllegal("env 4", "2.5"));
  EXPECT_THAT(CheckBox(box, {0, 0, -2.5, 0}), IsIllegal("env 7", "-2.5"));
  EXPECT_THAT(CheckBox(box, {0, 0, 0, std::nanf("")}), IsIllegal("env 7", "nan"));
}

TEST(CheckActionsTest, ChecksABoxWithABoundForEachElement) {
  const FieldSpec box = Box("action", {2}, {-1, -10}, {0, 10});
  EXPECT_THAT(CheckBox(box, {-1, 10, 0, -10}), IsOk());
  EXPECT_THAT(CheckBox(box, {0.5, 10, 0, 0}), IsIllegal("env 4", "0.5"));
  EXPECT_THAT(CheckBox(box, {0, 0, 0, 11}), IsIllegal("env 7", "11"));
}

TEST(CheckActionsTest, ChecksEachElementOfAMultiDiscreteAction) {
  const EnvSpec spec = SpecWith(MultiDiscrete("action", {2, 5}));
  const BatchBuilder rows = *BatchBuilder::Create(spec.action, 2);
  const auto check = [&](const std::vector<int64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) rows.column<int64_t>(0)[i] = values[i];
    return CheckActions(spec, {4, 7}, rows.view());
  };
  EXPECT_THAT(check({1, 4, 0, 0}), IsOk());
  EXPECT_THAT(check({2, 4, 0, 0}), IsIllegal("env 4", "2"));
  EXPECT_THAT(check({1, 4, 0, 5}), IsIllegal("env 7", "5"));
  EXPECT_THAT(check({1, 4, 0, -1}), IsIllegal("env 7", "-1"));
}

TEST(CheckActionsTest, RequiresFiniteValuesOfABoxWithoutBounds) {
  const FieldSpec box = Box("action", {1});
  EXPECT_THAT(CheckBox(box, {1e30f, -1e30f}), IsOk());
  EXPECT_THAT(CheckBox(box, {0, HUGE_VALF}), IsIllegal("env 7", "inf"));
}

TEST(CheckActionsTest, RefusesAnotherLayoutOfTheFirstField) {
  const EnvSpec discrete = SpecWith(Discrete("action", 3));
  const BatchBuilder rows = *BatchBuilder::Create(SpecWith(Box("action", {1})).action, 1);
  EXPECT_THAT(CheckActions(discrete, {0}, rows.view()),
              IsInvalid("float32[1]", "env 'Mine' expects 'action'", "int64[] in 0..2"));
}

TEST(EnvStateNameTest, ReturnsTheNamesOfTheContract) {
  EXPECT_EQ(EnvStateName(EnvState::kNeedReset), "NEED_RESET");
  EXPECT_EQ(EnvStateName(EnvState::kVoid), "VOID");
}

EnvManagerConformanceCase Base() {
  EnvManagerConformanceCase base;
  base.name = "Base";
  base.create = [](EnvManagerCore::Options options, int /*wait_num*/,
                   std::vector<EnvFactory> factories) {
    return BaseEnvManager::Create(std::move(options), std::move(factories));
  };
  base.one_by_one = true;
  return base;
}

INSTANTIATE_TEST_SUITE_P(InThread, EnvManagerConformance, testing::Values(Base()),
                         EnvManagerConformanceName);
INSTANTIATE_TEST_SUITE_P(InThread, EnvManagerStateConformance, testing::Values(Base()),
                         EnvManagerConformanceName);

EnvSpec SpecOf(std::vector<FieldSpec> observation, std::vector<FieldSpec> action) {
  EnvSpec spec;
  spec.name = "Mine";
  spec.observation = *MakeSpec(std::move(observation));
  spec.action = *MakeSpec(std::move(action));
  return spec;
}

TEST(ValidateEnvSpecTest, AcceptsSupportedSpecs) {
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Box("obs", {4})}, {Discrete("action", 2)})), IsOk());
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Box("obs/arm", {4}), Scalar("obs/mask", DType::kBool)},
                                     {Box("action", {2}, {-1}, {1})})),
              IsOk());
}

TEST(ValidateEnvSpecTest, NamesTheProblem) {
  const FieldSpec obs = Box("obs", {4});
  const FieldSpec action = Discrete("action", 2);
  EnvSpec nothing;
  nothing.name = "Mine";
  EXPECT_THAT(ValidateEnvSpec(nothing),
              IsInvalid("env 'Mine': its spec has no observation fields"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({}, {action})),
              IsInvalid("env 'Mine': its spec has no observation"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Box("state", {4})}, {action})),
              IsInvalid("env 'Mine': observation field 'state' must be named 'obs'"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Box("observation", {4})}, {action})),
              IsInvalid("env 'Mine': observation field 'observation' must be named"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({Scalar("obs", DType::kFloat64)}, {action})),
              IsInvalid("env 'Mine': observation field 'obs' is float64"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({obs}, {})),
              IsInvalid("env 'Mine': its spec must have exactly one"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({obs}, {Discrete("move", 2)})),
              IsInvalid("env 'Mine': its spec must have exactly one action field, named 'action'"));
  EXPECT_THAT(ValidateEnvSpec(SpecOf({obs}, {Scalar("action", DType::kInt32)})),
              IsInvalid("env 'Mine': action is int32[], expected discrete or float32"));
  EnvSpec limit = SpecOf({obs}, {action});
  limit.max_episode_steps = -1;
  EXPECT_THAT(ValidateEnvSpec(limit), IsInvalid("env 'Mine': max_episode_steps is -1"));
}

// The minimum that an env must define.
class PlainEnv : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  absl::Status Reset(const EpisodeStart&, const RowRef&) override { return absl::OkStatus(); }
  absl::Status Step(const RowView&, const RowRef&, StepResult*) override {
    return absl::OkStatus();
  }

 private:
  const EnvSpec spec_ = SpecOf({Box("obs", {1})}, {Discrete("action", 2)});
};

TEST(EnvTest, SavingAndRenderingAreOptional) {
  PlainEnv env;
  StateDict state;
  const auto cannot = [](absl::string_view what) {
    return IsError(absl::StatusCode::kUnimplemented, "Mine cannot " + std::string(what));
  };
  EXPECT_THAT(env.SaveState(&state), cannot("save"));
  EXPECT_THAT(env.LoadState(&state), cannot("load"));
  EXPECT_THAT(env.Render(), cannot("render"));
}

using Verdict = ProcessDeadline::Verdict;

constexpr ProcessDeadline::Limits kLimits = {absl::Seconds(60), absl::Seconds(5),
                                             absl::Seconds(20)};

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

// A process that was started at 0 and does `call`; kKill: it is late `seconds` after that.
Verdict After(int seconds, EnvCall call, const ProcessDeadline::Limits& limits = kLimits) {
  ProcessDeadline deadline;
  deadline.Start(At(0), 0);
  return deadline.Check(At(seconds), 0, call, limits).value();
}

TEST(ProcessDeadlineTest, EachCallHasItsLimit) {
  for (const EnvCall call : {EnvCall::kStarting, EnvCall::kBuild, EnvCall::kIdle}) {
    EXPECT_EQ(After(60, call), Verdict::kInTime);
    EXPECT_EQ(After(61, call), Verdict::kKill);
  }
  EXPECT_EQ(After(5, EnvCall::kStep), Verdict::kInTime);
  EXPECT_EQ(After(6, EnvCall::kStep), Verdict::kKill);
  for (const EnvCall call : {EnvCall::kReset, EnvCall::kRender, EnvCall::kSave, EnvCall::kLoad}) {
    EXPECT_EQ(After(20, call), Verdict::kInTime);
    EXPECT_EQ(After(21, call), Verdict::kKill);
  }
  EXPECT_EQ(After(1000000, EnvCall::kWaiting), Verdict::kInTime) << "it waits for its next attempt";
  EXPECT_EQ(After(1000000, EnvCall::kStep, {}), Verdict::kInTime) << "zero is no limit";
}

TEST(ProcessDeadlineTest, ProgressBeginsTheTimeAnew) {
  ProcessDeadline deadline;
  deadline.Start(At(0), 7);
  EXPECT_EQ(deadline.Check(At(5), 7, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  EXPECT_EQ(deadline.Check(At(6), 8, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  EXPECT_EQ(deadline.Check(At(11), 8, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  EXPECT_THAT(deadline.kill_cause(), IsOk());
  EXPECT_EQ(deadline.Check(At(12), 8, EnvCall::kStep, kLimits).value(), Verdict::kKill);
  EXPECT_THAT(deadline.kill_cause(),
              IsError(absl::StatusCode::kDeadlineExceeded,
                      "its process did not finish a step in 5s (step_timeout)"));
}

TEST(ProcessDeadlineTest, TheTimeBeginsWhenTheCallerBeginsToWait) {
  ProcessDeadline deadline;
  deadline.Start(At(0), 0);
  deadline.Watch(At(100), 0);
  EXPECT_EQ(deadline.Check(At(105), 0, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  deadline.Watch(At(105), 0);  // The caller waits for the same.
  EXPECT_EQ(deadline.Check(At(106), 0, EnvCall::kStep, kLimits).value(), Verdict::kKill);

  deadline.End();
  deadline.Start(At(200), 0);
  EXPECT_THAT(deadline.kill_cause(), IsOk());
  deadline.Watch(At(300), 0);
  EXPECT_EQ(deadline.Check(At(305), 0, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
  deadline.Watch(At(305), 1);  // For what the process has begun since.
  EXPECT_EQ(deadline.Check(At(310), 1, EnvCall::kStep, kLimits).value(), Verdict::kInTime);
}

TEST(ProcessDeadlineTest, AProcessThatOutlivesItsKillIsAnError) {
  ProcessDeadline deadline;
  deadline.Start(At(0), 0);
  ASSERT_EQ(deadline.Check(At(6), 0, EnvCall::kStep, kLimits).value(), Verdict::kKill);
  EXPECT_EQ(deadline.Check(At(10), 1, EnvCall::kStep, kLimits).value(), Verdict::kInTime)
      << "it is killed once";
  EXPECT_THAT(deadline.Check(At(11), 1, EnvCall::kStep, kLimits),
              IsInternal("a process that was killed 5s ago is still there; its process"));
}

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
