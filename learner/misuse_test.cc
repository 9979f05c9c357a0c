// What the public functions of this package do with counters, columns and callbacks that nobody
// should give them. Run it with AddressSanitizer and UndefinedBehaviorSanitizer, too.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/async_data_loader.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/testing/fake_learn_mode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Batch RowsWith(std::vector<FieldSpec> fields, int64_t rows = 2) {
  return BatchBuilder::Create(MakeSpec(std::move(fields)).value(), rows).value().Seal(rows);
}
Batch SomeRows() { return RowsWith({Box("obs", {1})}); }

class LearnerMisuse : public testing::Test {
 protected:
  LearnerMisuse() { learner_ = BaseLearner::Create({}, &policy_, {}, ComponentDeps()).value(); }

  void AddHook(HookPosition position, std::function<absl::Status(LearnerView*)> function,
               int priority = 50) {
    learner_->RegisterHook(std::make_shared<FunctionHook>(position, std::move(function), priority));
  }
  static absl::StatusOr<std::optional<TrainData>> NextBatch() { return TrainData(SomeRows()); }

  FakeLearnMode policy_;
  std::unique_ptr<BaseLearner> learner_;
};

TEST_F(LearnerMisuse, Train_CalledFromAHook_IsRefused) {
  policy_.steps_per_batch = 2;
  for (const HookPosition position : {HookPosition::kBeforeIter, HookPosition::kAfterIter}) {
    std::vector<absl::Status> nested;
    AddHook(position, [&](LearnerView*) {
      policy_.steps_per_batch = 100;  // A nested call would move the steps of the outer one.
      nested.push_back(learner_->Train(SomeRows()));
      policy_.steps_per_batch = 2;
      return absl::OkStatus();
    });
    std::vector<LearnStep*> seen;
    AddHook(
        HookPosition::kAfterIter,
        [&](LearnerView* learner) {
          seen.push_back(learner->current_step());
          return absl::OkStatus();
        },
        60);
    const int64_t before = learner_->train_iter();
    ASSERT_THAT(learner_->Train(SomeRows()), IsOk());
    EXPECT_EQ(learner_->train_iter(), before + 2);
    for (const absl::Status& status : nested) {
      EXPECT_THAT(status, IsFailedPrecondition("Train() is called during Train()"));
    }
    EXPECT_THAT(seen, testing::Each(testing::NotNull())) << "later hooks have the step, too";
    learner_ = BaseLearner::Create({}, &policy_, {}, ComponentDeps()).value();
  }
}

TEST_F(LearnerMisuse, Train_AfterARefusedNestedCall_Works) {
  AddHook(HookPosition::kAfterIter, [this](LearnerView*) { return learner_->Train(SomeRows()); });
  EXPECT_THAT(learner_->Train(SomeRows()), IsFailedPrecondition());
  EXPECT_THAT(learner_->Train(SomeRows()), IsFailedPrecondition("hook 'function'"));
}

TEST_F(LearnerMisuse, Start_CalledFromAHookOrTheSource_IsRefused) {
  AddHook(HookPosition::kBeforeRun, [this](LearnerView*) { return learner_->Start(NextBatch); });
  EXPECT_THAT(learner_->Start(NextBatch), IsFailedPrecondition("Start() is called during Start()"));
  learner_ = BaseLearner::Create({}, &policy_, {}, ComponentDeps()).value();
  EXPECT_THAT(learner_->Start([this]() -> absl::StatusOr<std::optional<TrainData>> {
    return learner_->Start(NextBatch);
  }),
              IsFailedPrecondition());
}

TEST_F(LearnerMisuse, Start_WithoutASource_IsAnError) {
  EXPECT_THAT(learner_->Start(nullptr), IsInternal());
}

TEST_F(LearnerMisuse, RegisterHook_BeforeTheOneThatRuns_CallsEachOnce) {
  std::vector<int> calls;
  bool registered = false;
  AddHook(HookPosition::kAfterIter, [&](LearnerView*) {
    calls.push_back(1);
    if (!std::exchange(registered, true)) {
      AddHook(
          HookPosition::kAfterIter,
          [&](LearnerView*) {
            calls.push_back(0);
            return absl::OkStatus();
          },
          10);
    }
    return absl::OkStatus();
  });
  ASSERT_THAT(learner_->Train(SomeRows()), IsOk());
  EXPECT_THAT(calls, ElementsAre(1));
  ASSERT_THAT(learner_->Train(SomeRows()), IsOk());
  EXPECT_THAT(calls, ElementsAre(1, 0, 1));
}

TEST_F(LearnerMisuse, CallHooks_AtNoPosition_IsRefused) {
  for (const int position : {-1, 5, std::numeric_limits<int>::max()}) {
    EXPECT_THAT(learner_->CallHooks(static_cast<HookPosition>(position)), IsInvalid());
  }
}

TEST(LearnerHooksMisuse, PositionThatDoesNotExist_Throws) {
  for (const int position : {-1, kNumHookPositions, 1000}) {
    EXPECT_THROW((void)LearnerHooks().at(static_cast<HookPosition>(position)), std::out_of_range);
  }
}

TEST(LearnerMisuseDeathTest, Hook_AtNoPosition_EndsTheProgramWithASentence) {
  const auto make = [](int position, int priority) {
    FunctionHook(
        static_cast<HookPosition>(position), [](LearnerView*) { return absl::OkStatus(); },
        priority);
  };
  EXPECT_DEATH(make(5, 0), "hook 'function' has position 5");
  EXPECT_DEATH(make(-1, 0), "hook 'function' has position -1");
  EXPECT_DEATH(make(0, -1), "hook 'function' has priority -1");
}

TEST_F(LearnerMisuse, Train_IdsOfAnotherType_IsAnError) {
  policy_.report_priority = true;
  for (const FieldSpec& ids : {Box(kColumnReplayUniqueId, {}), Box(kColumnReplayUniqueId, {3}),
                               Scalar(kColumnReplayBufferIdx, DType::kInt32),
                               MultiDiscrete(kColumnReplayBufferIdx, {2, 2})}) {
    EXPECT_THAT(learner_->Train(RowsWith({Box("obs", {1}), ids})), IsInvalid("expected int64[]"))
        << ids.DebugString();
  }
}

TEST_F(LearnerMisuse, SetProgress_OutOfRange_IsRefused) {
  for (const int64_t iter : {int64_t{-1}, kMin, kMax, kMax - 1}) {
    EXPECT_THAT(learner_->SetProgress(iter, 0), IsInvalid()) << iter;
  }
  for (const int64_t envstep : {int64_t{-2}, kMin, kMax}) {
    EXPECT_THAT(learner_->SetProgress(0, envstep), IsInvalid()) << envstep;
  }
  StateDict saved;
  ASSERT_THAT(saved.WriteInt("train_iter", kMax), IsOk());
  ASSERT_THAT(saved.WriteInt("collector_envstep", 0), IsOk());
  EXPECT_THAT(learner_->LoadState(&saved), IsInvalid());
  EXPECT_EQ(learner_->train_iter(), 0);
}

TEST_F(LearnerMisuse, Start_WithTheLargestLimit_DoesNotOverflow) {
  BaseLearner::Options options;
  options.train_iterations = kMax;
  learner_ = BaseLearner::Create(options, &policy_, {}, ComponentDeps()).value();
  ASSERT_THAT(learner_->SetProgress(int64_t{1} << 62, 0), IsOk());
  int batches = 0;
  EXPECT_THAT(learner_->Start([&]() -> absl::StatusOr<std::optional<TrainData>> {
    if (batches++ == 2) return std::nullopt;
    return TrainData(SomeRows());
  }),
              IsOk());
  EXPECT_EQ(learner_->train_iter(), (int64_t{1} << 62) + 2);
}

TEST_F(LearnerMisuse, CallbacksThatThrowOrReplaceThemselves_AreErrors) {
  learner_->set_checkpoint_fn([this, text = std::string(100, 'x')](absl::string_view) {
    learner_->set_checkpoint_fn(nullptr);  // It destroys this function.
    if (text.size() == 100) throw std::runtime_error("the disk is a lie");
    return absl::OkStatus();
  });
  EXPECT_THAT(learner_->SaveCheckpoint("x"), IsInternal("the disk is a lie"));
  const auto recover = [](const absl::Status&) -> absl::Status {
    throw std::runtime_error("no recovery");
  };
  policy_.next_error = absl::InternalError("loss is nan");
  EXPECT_THAT(learner_->Start(NextBatch, recover), IsInternal("no recovery"));
}

TEST(AsyncDataLoaderMisuse, NullFunctionsAndNextAfterClose_AreErrors) {
  EXPECT_THAT(AsyncDataLoader::Create({}, nullptr, nullptr), IsInvalid());
  DING_ASSERT_OK_AND_ASSIGN(
      const auto loader,
      AsyncDataLoader::Create(
          {}, []() -> absl::StatusOr<std::optional<BatchLoader>> { return BatchLoader(); },
          [] { throw std::runtime_error("cannot be cancelled"); }));
  EXPECT_THAT(loader->Next(), IsInternal());
  loader->Close();
  loader->Close();
  DING_ASSERT_OK_AND_ASSIGN(const auto after, loader->Next());
  EXPECT_FALSE(after.has_value());
}

}  // namespace
}  // namespace ding
