#include "ding_worker/learner/hook.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/hooks.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "ding_worker/metrics/sink.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class NamedHook : public LearnerHook {
 public:
  using LearnerHook::LearnerHook;
  absl::Status Call(LearnerView*) override { return absl::OkStatus(); }
};

std::shared_ptr<LearnerHook> Hook(const std::string& name, int priority,
                                  HookPosition position = HookPosition::kAfterIter) {
  return std::make_shared<NamedHook>(name, priority, position);
}

std::vector<std::string> Names(const LearnerHooks& hooks, HookPosition position) {
  std::vector<std::string> names;
  for (const auto& hook : hooks.at(position)) names.push_back(hook->name());
  return names;
}

TEST(HookTest, RunsByPriorityAndThenInOrderOfInsertion) {
  LearnerHooks hooks;
  for (const auto& hook : {Hook("late", 50), Hook("first", 10), Hook("second", 20),
                           Hook("third", 20), Hook("elsewhere", 0, HookPosition::kAfterRun)}) {
    add_learner_hook(&hooks, hook);
  }
  EXPECT_THAT(Names(hooks, HookPosition::kAfterIter),
              ElementsAre("first", "second", "third", "late"));
  EXPECT_THAT(Names(hooks, HookPosition::kAfterRun), ElementsAre("elsewhere"));
}

TEST(HookTest, MergesStably) {
  LearnerHooks a, b;
  add_learner_hook(&a, Hook("a20", 20));
  add_learner_hook(&a, Hook("a40", 40));
  add_learner_hook(&b, Hook("b20", 20));
  add_learner_hook(&b, Hook("b10", 10));
  EXPECT_THAT(Names(merge_hooks(a, b), HookPosition::kAfterIter),
              ElementsAre("b10", "a20", "b20", "a40"));
  EXPECT_THAT(Names(a, HookPosition::kAfterIter), ElementsAre("a20", "a40"));
}

TEST(HookTest, ShowsPositionsNamesAndPriorities) {
  LearnerHooks hooks;
  add_learner_hook(&hooks, Hook("log_show", 20));
  EXPECT_THAT(show_hooks(hooks), HasSubstr("after_iter: log_show (20)\n"));
}

TEST(HookDeathTest, ANegativePriorityEndsTheProgram) {
  EXPECT_DEATH(Hook("bad", -1), "priority -1");
}

struct Fixture {
  explicit Fixture(int64_t freq, ProcessGroup* group = nullptr) {
    ComponentDeps deps;
    deps.name = "learner";
    BaseLearner::Options options;
    options.train_iterations = 6;
    auto created = BaseLearner::Create(options, &policy, {}, deps, group);
    EXPECT_THAT(created, IsOk());
    learner = *std::move(created);
    const auto send_policy = [this](LearnerView* l) {
      policies.push_back(absl::StrCat(l->train_iter(), " weight ", policy.weight));
      return absl::OkStatus();
    };
    for (const auto position : {HookPosition::kBeforeRun, HookPosition::kAfterIter}) {
      learner->RegisterHook(
          std::make_shared<SendPolicyHook>("send_policy", 100, position, freq, send_policy));
    }
    const auto send_info = [this](LearnerView* l) {
      const LearnInfo info = l->learn_info();
      infos.push_back(absl::StrCat(info.learner_step, info.learner_done ? " done" : ""));
      return send_status;
    };
    for (const auto position : {HookPosition::kAfterIter, HookPosition::kAfterRun}) {
      learner->RegisterHook(
          std::make_shared<SendLearnInfoHook>("send_learn_info", 100, position, freq, send_info));
    }
  }
  absl::Status Start() {
    return learner->Start([] { return TrainData(); });
  }

  FakeLearnMode policy;
  std::unique_ptr<ILearner> learner;
  std::vector<std::string> policies;
  std::vector<std::string> infos;
  absl::Status send_status;
};

TEST(ParallelHooksTest, SendAfterEveryIteration) {
  Fixture f(1);
  ASSERT_THAT(f.Start(), IsOk());
  EXPECT_THAT(f.policies, ElementsAre("0 weight 0", "1 weight 1", "2 weight 2", "3 weight 3",
                                      "4 weight 4", "5 weight 5", "6 weight 6"));
  EXPECT_THAT(f.infos, ElementsAre("1", "2", "3", "4", "5", "6", "6 done"));
}

TEST(ParallelHooksTest, SendAtTheFrequency) {
  Fixture f(4);
  ASSERT_THAT(f.Start(), IsOk());
  EXPECT_THAT(f.policies, ElementsAre("0 weight 0", "4 weight 4"));
  EXPECT_THAT(f.infos, ElementsAre("4", "6 done"));
}

TEST(ParallelHooksTest, SendOnceAfterSeveralStepsOnABatch) {
  Fixture each(1);
  each.policy.steps_per_batch = 3;
  ASSERT_THAT(each.Start(), IsOk());
  EXPECT_THAT(each.policies, ElementsAre("0 weight 0", "3 weight 3", "6 weight 6"));
  EXPECT_THAT(each.infos, ElementsAre("3", "6", "6 done"));
  // The fourth iteration is within the second batch.
  Fixture fourth(4);
  fourth.policy.steps_per_batch = 3;
  ASSERT_THAT(fourth.Start(), IsOk());
  EXPECT_THAT(fourth.policies, ElementsAre("0 weight 0", "6 weight 6"));
}

TEST(ParallelHooksTest, AFailureEndsTheRun) {
  Fixture f(2);
  f.send_status = absl::UnavailableError("no store");
  EXPECT_THAT(f.Start(),
              IsUnavailable("hook 'send_learn_info' (after_iter) at iteration 2: no store"));
  EXPECT_EQ(f.learner->train_iter(), 2);
}

class SecondOfTwo : public ProcessGroup {
 public:
  int rank() const override { return 1; }
  int world_size() const override { return 2; }
  absl::Status AllReduceMean(absl::Span<double> /*values*/) override { return absl::OkStatus(); }
};

// The other ranks still report the priorities of their own rows.
TEST(ParallelHooksTest, OtherRanksPublishNothing) {
  SecondOfTwo group;
  Fixture f(1, &group);
  ASSERT_THAT(f.Start(), IsOk());
  EXPECT_THAT(f.policies, IsEmpty());
  EXPECT_THAT(f.infos, Not(IsEmpty()));
}

LearnerHooksConfig Parse(const std::string& text) {
  LearnerHooksConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

TEST(BuildLearnerHookTest, ShortFormsCreateTheUsualHooks) {
  DING_ASSERT_OK_AND_ASSIGN(const LearnerHooks hooks,
                            build_learner_hook_by_cfg(LearnerHooksConfig()));
  EXPECT_EQ(hooks.at(HookPosition::kBeforeRun).size(), 0u);
  EXPECT_EQ(hooks.at(HookPosition::kBeforeIter).size(), 0u);
  ASSERT_EQ(hooks.at(HookPosition::kAfterIter).size(), 2u);
  EXPECT_EQ(hooks.at(HookPosition::kAfterIter)[0]->name(), "log_show_after_iter");
  EXPECT_EQ(hooks.at(HookPosition::kAfterIter)[1]->name(), "save_ckpt_after_iter");
  ASSERT_EQ(hooks.at(HookPosition::kAfterRun).size(), 1u);
  EXPECT_EQ(hooks.at(HookPosition::kAfterRun)[0]->name(), "save_ckpt_after_run");
}

TEST(BuildLearnerHookTest, ZeroAndFalseSwitchOff) {
  DING_ASSERT_OK_AND_ASSIGN(
      const LearnerHooks hooks,
      build_learner_hook_by_cfg(
          Parse("log_show_after_iter: 0 save_ckpt_after_iter: 0 save_ckpt_after_run: false "
                "log_reduce_after_iter: true load_ckpt_before_run: 'x'")));
  ASSERT_EQ(hooks.at(HookPosition::kAfterIter).size(), 1u);
  EXPECT_EQ(hooks.at(HookPosition::kAfterIter)[0]->name(), "log_reduce_after_iter");
  EXPECT_EQ(hooks.at(HookPosition::kAfterRun).size(), 0u);
  ASSERT_EQ(hooks.at(HookPosition::kBeforeRun).size(), 1u);
  EXPECT_EQ(hooks.at(HookPosition::kBeforeRun)[0]->name(), "load_ckpt_before_run");
}

TEST(BuildLearnerHookTest, FullFormSetsPositionAndPriority) {
  DING_ASSERT_OK_AND_ASSIGN(
      const LearnerHooks hooks,
      build_learner_hook_by_cfg(Parse("log_show_after_iter: 0 save_ckpt_after_iter: 0 "
                                      "hook { name: 'often' type: 'save_ckpt' freq: 5 "
                                      "priority: 40 position: AFTER_ITER }")));
  ASSERT_EQ(hooks.at(HookPosition::kAfterIter).size(), 1u);
  EXPECT_EQ(hooks.at(HookPosition::kAfterIter)[0]->name(), "often");
  EXPECT_EQ(hooks.at(HookPosition::kAfterIter)[0]->priority(), 40);
}

TEST(BuildLearnerHookTest, ReportsEveryProblemAtOnce) {
  EXPECT_THAT(
      build_learner_hook_by_cfg(Parse("log_show_after_iter: -3 "
                                      "hook { type: 'save_ckpt' priority: -1 } "
                                      "hook { type: 'no_such' } "
                                      "hook { name: 'no_such' type: 'log_show' }")),
      IsInvalid("freq is -3", "priority is -1",
                "unknown learner hook type 'no_such'; this program has: ",
                "load_ckpt, log_reduce, log_show, save_ckpt", "hook 'no_such' appears twice"));
}

class ReportHook : public LearnerHook {
 public:
  explicit ReportHook(const LearnerHookConfig& config)
      : LearnerHook(config.name(), config.priority(), HookPosition::kBeforeIter) {}
  absl::Status Call(LearnerView*) override { return absl::OkStatus(); }
};

TEST(RegisterLearnerHookTest, UserTypesAreFoundByName) {
  register_learner_hook(
      "report",
      [](const LearnerHookConfig& config) { return std::make_shared<ReportHook>(config); },
      "does nothing");
  EXPECT_THAT(LearnerHookRegistry().Names(), Contains("report"));
  DING_ASSERT_OK_AND_ASSIGN(const LearnerHooks hooks,
                            build_learner_hook_by_cfg(Parse("hook { type: 'report' }")));
  ASSERT_EQ(hooks.at(HookPosition::kBeforeIter).size(), 1u);
  EXPECT_EQ(hooks.at(HookPosition::kBeforeIter)[0]->priority(), 100);
}

TEST(BuildLearnerHookTest, BuiltInTypesRefuseParams) {
  for (const char* type :
       {"load_ckpt", "save_ckpt", "save_ckpt_seconds", "log_show", "log_reduce"}) {
    LearnerHooksConfig config;
    LearnerHookConfig* const hook = config.add_hook();
    hook->set_type(type);
    hook->mutable_params()->PackFrom(LearnerConfig());
    EXPECT_THAT(build_learner_hook_by_cfg(config),
                IsInvalid(absl::StrCat("params hold a ding.LearnerConfig, but type '", type,
                                       "' takes none")));
  }
}

TEST(RegisterLearnerHookTest, AFactoryThatThrowsOrReturnsNoneIsAnError) {
  register_learner_hook(
      "throws",
      [](const LearnerHookConfig&) -> absl::StatusOr<std::shared_ptr<LearnerHook>> {
        throw std::runtime_error("no such file");
      },
      "throws");
  register_learner_hook(
      "none", [](const LearnerHookConfig&) { return std::shared_ptr<LearnerHook>(); },
      "returns none");
  EXPECT_THAT(build_learner_hook_by_cfg(Parse("hook { type: 'throws' } hook { type: 'none' }")),
              IsInvalid("hook 'throws'", "no such file",
                        "the factory of learner hook 'none' returned none"));
}

TEST(RegisterLearnerHookDeathTest, ARepeatedNameEndsTheProgram) {
  EXPECT_DEATH(register_learner_hook("save_ckpt", nullptr, "help"),
               "'save_ckpt' is registered twice");
}

}  // namespace
}  // namespace ding
