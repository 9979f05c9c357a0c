// What the learner aggregator does with options and calls that nobody should give it. Run it with
// AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, too. aggregator_fuzz_test has
// the messages of workers.
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/adapter/learner_aggregator.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr int kMinInt = std::numeric_limits<int>::min();
constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const absl::Duration kNegative[] = {absl::Nanoseconds(-1), -absl::InfiniteDuration()};

class AggregatorMisuse : public testing::Test {
 protected:
  AggregatorMisuse() { options_.server.address = "learners"; }

  absl::Status Create(const LearnerAggregator::Options& options) {
    return LearnerAggregator::Create(options, session_.get(), coordinator_.transport()).status();
  }

  FakeCoordinator coordinator_;
  const std::unique_ptr<WorkerSession> session_ = coordinator_.Join();
  LearnerAggregator::Options options_;
};

TEST_F(AggregatorMisuse, Create_OptionsOutOfRange_IsRefused) {
  EXPECT_THAT(Create(options_), IsOk());
  for (const int number : {0, -1, kMinInt}) {
    LearnerAggregator::Options options = options_;
    options.learner_num = number;
    EXPECT_THAT(Create(options), StatusIs(kInvalid));
    options = options_;
    options.server.max_workers = number;
    EXPECT_THAT(Create(options), StatusIs(kInvalid));
  }
  for (const absl::Duration time : kNegative) {
    for (absl::Duration LearnerAggregator::Options::*const option :
         {&LearnerAggregator::Options::connect_timeout, &LearnerAggregator::Options::form_timeout,
          &LearnerAggregator::Options::admit_period, &LearnerAggregator::Options::leave_timeout,
          &LearnerAggregator::Options::report_period}) {
      LearnerAggregator::Options options = options_;
      options.*option = time;
      EXPECT_THAT(Create(options), StatusIs(kInvalid));
    }
  }
  EXPECT_THAT(LearnerAggregator::Create(options_, nullptr, coordinator_.transport()),
              StatusIs(kInvalid, HasSubstr("without a session")));
  EXPECT_THAT(LearnerAggregator::Create(options_, session_.get(), nullptr), StatusIs(kInvalid));
}

TEST_F(AggregatorMisuse, LargestOptions_RunToTheEnd) {
  options_.learner_num = kMaxInt;
  options_.connect_timeout = absl::InfiniteDuration();
  options_.form_timeout = absl::InfiniteDuration();
  options_.admit_period = absl::InfiniteDuration();
  options_.leave_timeout = absl::InfiniteDuration();
  options_.report_period = absl::InfiniteDuration();
  options_.server.max_workers = kMaxInt;
  DING_ASSERT_OK_AND_ASSIGN(
      const auto aggregator,
      LearnerAggregator::Create(options_, session_.get(), coordinator_.transport()));
  absl::Status end;
  std::thread running([&] { end = aggregator->Run().status(); });
  coordinator_.StartLearner("a");
  aggregator->status();
  aggregator->Close();
  running.join();
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(AggregatorMisuse, CallsAfterTheEnd_ReturnErrorsOrNothing) {
  DING_ASSERT_OK_AND_ASSIGN(
      const auto aggregator,
      LearnerAggregator::Create(options_, session_.get(), coordinator_.transport()));
  aggregator->Close();
  aggregator->Close();
  EXPECT_THAT(aggregator->Run(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(aggregator->Run(), StatusIs(absl::StatusCode::kCancelled));
  aggregator->Close();
  aggregator->status();
  EXPECT_FALSE(aggregator->ended());
}

}  // namespace
}  // namespace ding
