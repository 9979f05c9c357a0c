// The examples of docs/reference/learner.md.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/learner_registry.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "ding_worker/learner/testing/own_learners.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
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

  absl::Status Call(LearnerView* learner) override {
    const double loss = learner->current_step()->scalars.GetOr("total_loss", 1);
    small_ = loss < 0.2 ? small_ + 1 : 0;
    if (small_ == 3) learner->run_signals()->RequestStop("the loss is small");
    return absl::OkStatus();
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
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ILearner> learner,
                            create_learner(config, &policy, ComponentDeps()));
  // A program ends the run then.
  const std::string& request = learner->run_signals()->stop_request();
  EXPECT_THAT(learner->Start([&request]() -> absl::StatusOr<std::optional<TrainData>> {
    if (!request.empty()) return std::nullopt;
    return TrainData();
  }),
              IsOk());
  EXPECT_EQ(request, "the loss is small");
  EXPECT_EQ(learner->train_iter(), 8);
}

// Trains several times on each batch.
class RepeatLearner : public BaseLearner {
 public:
  RepeatLearner(Parts parts, int times) : BaseLearner(std::move(parts)), times_(times) {}

  absl::Status Train(const Batch& data, int64_t envstep, const NamedValues& settings) override {
    for (int i = 0; i < times_; ++i) {
      DING_RETURN_IF_ERROR(BaseLearner::Train(data, envstep, settings));
    }
    return absl::OkStatus();
  }

 private:
  const int times_;
};

absl::StatusOr<std::unique_ptr<ILearner>> MakeRepeatLearner(const LearnerConfig& config,
                                                            LearnMode* policy,
                                                            const ComponentDeps& deps,
                                                            ProcessGroup* group) {
  RepeatLearnerConfig params;
  if (config.has_params() && !config.params().UnpackTo(&params)) {
    return absl::InvalidArgumentError("params: expected a ding.RepeatLearnerConfig");
  }
  if (params.times() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("params: times is ", params.times(), ", expected at least 1"));
  }
  DING_ASSIGN_OR_RETURN(BaseLearner::Parts parts,
                        ReadBaseLearnerParts(config, policy, deps, group));
  return std::make_unique<RepeatLearner>(std::move(parts), params.times());
}

DING_REGISTER(LearnerRegistry(), "repeat", MakeRepeatLearner, "trains several times on each batch");

absl::StatusOr<std::unique_ptr<ILearner>> MakeLearner(const char* text, LearnMode* policy) {
  LearnerConfig config;
  if (!google::protobuf::TextFormat::ParseFromString(text, &config)) {
    return absl::InvalidArgumentError("the config does not parse");
  }
  return create_learner(config, policy, ComponentDeps());
}

TEST(LearnerExample, ALearnerOfOnesOwnRepeatsBatches) {
  FakeLearnMode policy;
  DING_ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<ILearner> learner,
      MakeLearner(
          R"(type: "repeat" params { [type.googleapis.com/ding.RepeatLearnerConfig] { times: 3 } })",
          &policy));
  ASSERT_THAT(learner->Train(Batch()), IsOk());
  EXPECT_EQ(learner->train_iter(), 3);
  EXPECT_EQ(policy.weight, 3);
}

TEST(LearnerExample, ALearnerOfOnesOwnRefusesInvalidConfigs) {
  FakeLearnMode policy;
  EXPECT_THAT(
      MakeLearner(
          R"(type: "repeat" params { [type.googleapis.com/ding.RepeatLearnerConfig] { times: 0 } })",
          &policy),
      IsInvalid("times is 0"));
  EXPECT_THAT(
      MakeLearner(R"(type: "repeat" params { [type.googleapis.com/ding.LearnerConfig] {} })",
                  &policy),
      IsInvalid("RepeatLearnerConfig"));
  EXPECT_THAT(MakeLearner(R"(type: "repeat" train_iterations: 0)", &policy),
              IsInvalid("train_iterations is 0"));
}

}  // namespace
}  // namespace ding
