#include <memory>
#include <stdexcept>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/learner/learner_registry.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

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
  EXPECT_THAT(build_learner_hook_by_cfg(Parse("log_show_after_iter: -3 "
                                              "hook { type: 'save_ckpt' priority: -1 } "
                                              "hook { type: 'no_such' } "
                                              "hook { name: 'no_such' type: 'log_show' }")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("freq is -3"), HasSubstr("priority is -1"),
                             HasSubstr("unknown learner hook type 'no_such'; this program has: "),
                             HasSubstr("load_ckpt, log_reduce, log_show, save_ckpt"),
                             HasSubstr("hook 'no_such' appears twice"))));
}

class ReportHook : public LearnerHook {
 public:
  explicit ReportHook(const LearnerHookConfig& config)
      : LearnerHook(config.name(), config.priority(), HookPosition::kBeforeIter) {}
  absl::Status Call(ILearner*) override { return absl::OkStatus(); }
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
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("params hold a ding.LearnerConfig, but type '",
                                                type, "' takes none"))));
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
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("hook 'throws'"), HasSubstr("no such file"),
                             HasSubstr("the factory of learner hook 'none' returned none"))));
}

TEST(RegisterLearnerHookDeathTest, ARepeatedNameEndsTheProgram) {
  EXPECT_DEATH(register_learner_hook("save_ckpt", nullptr, "help"),
               "'save_ckpt' is registered twice");
}

}  // namespace
}  // namespace ding
