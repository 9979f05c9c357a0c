// Bounds on the rows drawn per row pushed, and rows that are collected at random, as a coordinator
// with several workers keeps them.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/testing/coordinator_calls.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ReplayRatioTest : public CoordinatorTest {
 protected:
  ~ReplayRatioTest() override {
    EXPECT_THAT(coordinator_->Close("over"), IsOk());
    if (pusher_.joinable()) pusher_.join();
  }

  void StartWith(const ReplayRatioLimiter::Options& ratio) {
    options_.replay_ratio = ratio;
    StartTraining();
  }
  WorkerMessage NextRows(int64_t rows) {
    ++pushes_;
    return Data(collector_.task_id(), pushes_,
                TestItemsOfChunk(Chunk(kCollector, static_cast<uint32_t>(pushes_)), rows));
  }
  void Push(int64_t rows) { Handle(kCollector, NextRows(rows)); }
  // Pushes on a second thread, and returns when that push waits.
  void PushAndWait(int64_t rows) {
    pusher_ = std::thread([this, message = NextRows(rows)] {
      pushed_ = HandleNow(coordinator_.get(), kCollector, message);
    });
    WaitUntilItWaits(kCollector);
  }
  void WaitUntilItWaits(uint32_t worker) {
    for (int i = 0; i < 5000 && StatusOf(worker).waits_for().empty(); ++i) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  void ExpectPushed() {
    pusher_.join();
    EXPECT_THAT(pushed_, IsOk());
  }
  // Sends a demand for so many batches.
  void Draw(int batches = 1, int64_t batch_size = 4) {
    ++demands_;
    Handle(kLearner, Demand(learner_.task_id(), demands_, batch_size, demands_ - 1, batches));
  }
  BufferStatus OfBuffer() { return coordinator_->status().buffer(0); }

  uint64_t pushes_ = 0;
  uint64_t demands_ = 0;
  std::thread pusher_;
  absl::Status pushed_ = absl::UnknownError("it waits");
};

TEST_F(ReplayRatioTest, ADemandWaitsForPushes) {
  StartWith({0, 2, 0, 4});
  Push(4);
  Draw(/*batches=*/3);
  std::vector<LearnerData> answers = TakeAnswers(kLearner);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].items_size(), 2) << "the third batch would be too much";
  EXPECT_EQ(OfBuffer().replay_ratio(), 2);
  Draw();
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty());
  EXPECT_EQ(StatusOf(kLearner).waits_for(),
            "more rows before 4 are drawn (replay_ratio.max is 2: 8 rows are drawn and 4 pushed)");
  Push(1);
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty());
  Push(1);
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
  EXPECT_THAT(StatusOf(kLearner).waits_for(), IsEmpty());
  EXPECT_EQ(OfBuffer().sample_count(), 12);
}

TEST_F(ReplayRatioTest, ADemandWaitsForTheFirstRows) {
  StartWith({0, kInfinity, 6, 4});
  Push(4);
  Draw();
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty());
  EXPECT_THAT(StatusOf(kLearner).waits_for(), HasSubstr("4 of 6 are pushed"));
  Push(2);
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
}

TEST_F(ReplayRatioTest, ACollectorWaitsForDraws) {
  StartWith({2, kInfinity, 0, 4});
  EXPECT_EQ(collector_.max_unacknowledged(), 1u) << "it must not run ahead";
  Push(4);
  PushAndWait(4);
  EXPECT_EQ(StatusOf(kCollector).waits_for(),
            "more draws before 4 rows are pushed (replay_ratio.min is 2: 0 rows are drawn and 4 "
            "pushed)");
  EXPECT_EQ(rows(), 4);
  Draw();
  ExpectPushed();
  EXPECT_EQ(rows(), 8);
  EXPECT_EQ(coordinator_->counters().pushes_waited, 1);
}

TEST_F(ReplayRatioTest, CollectorsWaitForALearnerThatIsGone) {
  StartWith({2, kInfinity, 0, 4});
  Push(4);
  Lose(kLearner);
  PushAndWait(4);
  EXPECT_THAT(StatusOf(kCollector).waits_for(), StartsWith("a learner, and more draws before 4"));
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(rows(), 4);
  constexpr uint32_t kNextLearner = 9;
  Join(kNextLearner, Hello::LEARNER);
  const LearnerTask task = TakeLearnerTask(kNextLearner);
  EXPECT_TRUE(task.resume());
  Handle(kNextLearner, Started(task.task_id()));
  Handle(kNextLearner, Demand(task.task_id(), 1, 4));
  ExpectPushed();
}

TEST_F(ReplayRatioTest, AWaitEndsWithTheWorkerAndWithTheRun) {
  StartWith({2, kInfinity, 0, 4});
  Push(4);
  PushAndWait(4);
  Lose(kCollector);
  ExpectPushed();
  EXPECT_EQ(rows(), 4);
  Join(kOther, Hello::COLLECTOR);
  collector_ = TakeCollectorTask(kOther);
  pusher_ = std::thread([this] {
    pushed_ = HandleNow(coordinator_.get(), kOther,
                        Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kOther, 0), 4)));
  });
  WaitUntilItWaits(kOther);
  EXPECT_THAT(coordinator_->Close("over"), IsOk());
  ExpectPushed();
}

// The buffer cannot fill a batch before there are more rows than the lower bound admits.
TEST_F(ReplayRatioTest, AHungryLearnerIsGivenRows) {
  StartWith({8, 8, 0, 16});
  Draw(1, /*batch_size=*/16);
  for (int i = 0; i < 4; ++i) Push(4);
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
}

// With both bounds at the same ratio, nobody waits for ever, whoever comes first.
TEST_F(ReplayRatioTest, SeveralCollectorsAndALearnerKeepTheRatio) {
  constexpr int64_t kChunks = 60;
  constexpr int64_t kRows = 7;
  StartWith({2, 2, 10, 4});
  Join(kOther, Hello::COLLECTOR);
  const CollectorTask other = TakeCollectorTask(kOther);
  ASSERT_FALSE(other.task_id().empty());
  Advance(absl::Minutes(1));
  std::atomic<int> working{2};
  const auto collect = [&](uint32_t worker, const std::string& task_id) {
    for (int64_t i = 1; i <= kChunks; ++i) {
      Handle(worker, Data(task_id, static_cast<uint64_t>(i),
                          TestItemsOfChunk(Chunk(worker, static_cast<uint32_t>(i)), kRows)));
    }
    --working;
  };
  Draw();  // It waits for the first rows.
  std::thread first([&] { collect(kCollector, collector_.task_id()); });
  std::thread second([&] { collect(kOther, other.task_id()); });
  const Timer timer(Clock::Real());
  int64_t answered = 0;
  while (working > 0 && timer.Elapsed() < absl::Seconds(60)) {
    int64_t answers = 0;
    while (answers == 0 && working > 0) {
      answers = static_cast<int64_t>(TakeAnswers(kLearner).size());
      const BufferStatus buffer = OfBuffer();
      EXPECT_LE(buffer.sample_count(), 2 * std::max<int64_t>(0, buffer.push_count() - 10));
      // The buffer may have counted one push of each collector that the limiter has not counted
      // yet.
      EXPECT_GE(buffer.sample_count() + 4 + 4 * kRows, 2 * (buffer.push_count() - 10 - kRows));
    }
    answered += answers;
    if (answers > 0) Draw();
  }
  first.join();
  second.join();
  // The collectors may be done long before the learner: then their last pushes wait for its draws.
  while (const auto answers = static_cast<int64_t>(TakeAnswers(kLearner).size())) {
    answered += answers;
    Draw();
  }
  EXPECT_EQ(rows(), 2 * kChunks * kRows);
  EXPECT_NEAR(static_cast<double>(4 * answered), 2 * (2 * kChunks * kRows - 10), 4 * kRows);
  EXPECT_GT(coordinator_->counters().pushes_waited, 0);
  EXPECT_GT(coordinator_->counters().demands_waited, 0);
}

TEST_F(ReplayRatioTest, WithoutBoundsNobodyIsTold) {
  StartTraining();
  EXPECT_FALSE(collector_.has_max_unacknowledged());
  EXPECT_FALSE(collector_.acts_at_random());
  EXPECT_FALSE(OfBuffer().has_replay_ratio());
}

TEST_F(ReplayRatioTest, WrongBoundsAreRefused) {
  StartTraining();
  options_.replay_ratio = ReplayRatioLimiter::Options{3, 2, 0, 4};
  options_.random_collect_size = -1;
  options_.first_env_step = -1;
  EXPECT_THAT(Coordinator::Problems(options_),
              ElementsAre(HasSubstr("replay_ratio.min is 3"), HasSubstr("first_env_step is -1"),
                          HasSubstr("random_collect_size is -1")));
}

TEST_F(ReplayRatioTest, TheFirstRowsAreCollectedAtRandom) {
  options_.random_collect_size = 6;
  StartTraining();
  EXPECT_TRUE(collector_.acts_at_random());
  EXPECT_EQ(collector_.max_unacknowledged(), 1u);
  Draw();
  const auto acts_at_random = [this] {
    bool at_random = false;
    int acks = 0;
    for (const CoordinatorMessage& message : sender_.Take(kCollector)) {
      if (!message.has_collector_data_ack()) continue;
      at_random = message.collector_data_ack().acts_at_random();
      ++acks;
    }
    EXPECT_EQ(acks, 1);
    return at_random;
  };
  Push(4);
  EXPECT_TRUE(acts_at_random());
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty()) << "it learns when all of them are there";
  Join(kOther, Hello::COLLECTOR);
  EXPECT_TRUE(TakeCollectorTask(kOther).acts_at_random());
  Push(4);
  EXPECT_FALSE(acts_at_random());
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
  EXPECT_FALSE(OfBuffer().has_replay_ratio());
  Lose(kOther);
  Join(kOther, Hello::COLLECTOR);
  EXPECT_FALSE(TakeCollectorTask(kOther).acts_at_random());
}

TEST_F(ReplayRatioTest, ARunGoesOnCountingFromAnEarlierOne) {
  options_.first_env_step = 1000;
  StartTraining();
  EXPECT_EQ(coordinator_->status().envstep(), 1000);
  Handle(kCollector,
         Data(collector_.task_id(), 1, TestItemsOfChunk(Chunk(kCollector, 1), 4), /*cur_step=*/4));
  EXPECT_EQ(coordinator_->status().envstep(), 1004);
}

}  // namespace
}  // namespace ding
