// The example of docs/learner.md.

#include <memory>
#include <utility>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/hook_registry.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "ding_worker/learner/train_data.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Ends the run when the loss has been small for three iterations.
class EarlyStopHook : public LearnerHook {
 public:
  explicit EarlyStopHook(const LearnerHookConfig& config)
      : LearnerHook(config.name(), config.priority(), HookPosition::kAfterIter) {}

  absl::Status Call(BaseLearner* learner) override {
    const double loss = learner->current_step()->scalars.GetOr("total_loss", 1);
    small_ = loss < 0.2 ? small_ + 1 : 0;
    return small_ < 3 ? absl::OkStatus() : absl::CancelledError("the loss is small");
  }

 private:
  int small_ = 0;
};

DING_REGISTER(
    LearnerHookRegistry(), "early_stop",
    [](const LearnerHookConfig& config) { return std::make_shared<EarlyStopHook>(config); },
    "ends the run when the loss has been small for three iterations");

TEST(LearnerExample, AUserHookEndsTheRun) {
  LearnerConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(hook { save_ckpt_after_iter: 5000 save_ckpt_after_run: false
                hook { type: "early_stop" position: AFTER_ITER priority: 50 } })",
      &config));
  FakeLearnMode policy;  // Its loss is 1 / iteration.
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<BaseLearner> learner,
                            create_learner(config, &policy, ComponentDeps()));
  EXPECT_THAT(learner->Start([] { return TrainData(); }),
              StatusIs(absl::StatusCode::kCancelled,
                       testing::HasSubstr("hook 'early_stop' (after_iter) at iteration 8")));
}

}  // namespace
}  // namespace ding
