// Rounds of an on-policy policy, as a coordinator with two collectors keeps them.

#include "ding_worker/coordinator/state/learning_rounds.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/coordinator/testing/coordinator_fixture.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

class LearningRoundsTest : public CoordinatorTest {
 protected:
  LearningRoundsTest() {
    options_.rounds = LearningRounds{/*rows=*/8, /*hand_over_rows=*/4, /*ahead=*/1};
    commander_options_.collector_task_space = 2;
    make_buffer_ = [](const std::string& id, absl::Span<const std::string> /*settings*/,
                      OnRemoved on_removed) {
      AdvancedReplayBuffer::Options options;
      options.name = id;
      options.max_use = 1;
      options.selector = std::make_shared<UniformSelector>();
      options.on_removed = std::move(on_removed);
      return AdvancedReplayBuffer::Create(options);
    };
  }
  ~LearningRoundsTest() override {
    EXPECT_THAT(coordinator_->Close("over"), IsOk());
    for (auto& [worker, thread] : pushers_) {
      if (thread.joinable()) thread.join();
    }
  }

  void StartTwo() {
    StartTraining();
    Join(kOther, Hello::COLLECTOR);
    tasks_ = {{kCollector, collector_}, {kOther, TakeCollectorTask(kOther)}};
    ASSERT_FALSE(tasks_[kOther].task_id().empty());
  }
  // Hands over 4 rows, on a thread of its own, because the collector may have to wait.
  void HandOver(uint32_t worker, int64_t collect_iter = 0) {
    const uint64_t number = ++handed_over_[worker];
    if (pushers_[worker].joinable()) pushers_[worker].join();
    pushers_[worker] = std::thread([this, worker, number, collect_iter] {
      Handle(worker,
             Data(tasks_[worker].task_id(), number,
                  TestItemsOfChunk(Chunk(worker, static_cast<uint32_t>(number)), 4, collect_iter),
                  /*cur_step=*/static_cast<int64_t>(4 * number)));
    });
  }
  void ExpectWaits(uint32_t worker) {
    for (int i = 0; i < 5000 && StatusOf(worker).waits_for().empty(); ++i) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_THAT(StatusOf(worker).waits_for(), StartsWith("the learner to learn from a round of 8"));
    EXPECT_THAT(TakeAcks(worker), IsEmpty());
  }
  void ExpectGoesOn(uint32_t worker) {
    pushers_[worker].join();
    EXPECT_THAT(TakeAcks(worker), ElementsAre(handed_over_[worker]));
  }
  void Ask(uint32_t learner = kLearner, int64_t collect_iter = 0) {
    ++demands_;
    WorkerMessage demand = Demand(learner_.task_id(), demands_, 8, /*read=*/demands_ - 1);
    demand.mutable_learner_demand()->add_collect_iter(collect_iter);
    Handle(learner, demand);
  }
  BufferStatus OfBuffer() { return coordinator_->status().buffer(0); }

  std::map<uint32_t, CollectorTask> tasks_;
  std::map<uint32_t, uint64_t> handed_over_;
  std::map<uint32_t, std::thread> pushers_;
  uint64_t demands_ = 0;
};

TEST_F(LearningRoundsTest, CollectorsWaitWhileARoundIsThereOrBeingCollected) {
  StartTwo();
  EXPECT_TRUE(collector_.has_max_unacknowledged());
  EXPECT_EQ(collector_.max_unacknowledged(), 0u);
  HandOver(kCollector);
  ExpectWaits(kCollector);  // The other collector collects the rest of the round.
  HandOver(kOther);
  ExpectWaits(kOther);
  EXPECT_EQ(rows(), 8) << "the rows are there, only the acknowledgements are not";
  Ask();
  ASSERT_THAT(TakeAnswers(kLearner), SizeIs(1));
  ExpectGoesOn(kCollector);
  ExpectGoesOn(kOther);
  EXPECT_EQ(rows(), 0);
}

TEST_F(LearningRoundsTest, ARoundThatTheLearnerWaitsForIsDrawnAtOnce) {
  StartTwo();
  Ask();
  HandOver(kCollector);
  ExpectGoesOn(kCollector);  // It goes on with rows of the next round.
  HandOver(kOther);
  ExpectGoesOn(kOther);
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
}

TEST_F(LearningRoundsTest, ACollectorThatWaitsGoesOnWhenTheLearnerDemandsMoreThanIsThere) {
  StartTwo();
  HandOver(kCollector);
  ExpectWaits(kCollector);
  Ask();
  ExpectGoesOn(kCollector);
}

TEST_F(LearningRoundsTest, ACollectorTakesThePartOfOneThatIsGone) {
  StartTwo();
  HandOver(kCollector);
  ExpectWaits(kCollector);
  Lose(kOther);
  ExpectGoesOn(kCollector);
  HandOver(kCollector);
  Ask();
  ExpectGoesOn(kCollector);
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
}

TEST_F(LearningRoundsTest, AWaitEndsWithTheCollectorAndItsRowsStay) {
  StartTwo();
  HandOver(kCollector);
  ExpectWaits(kCollector);
  Lose(kCollector);
  pushers_[kCollector].join();
  EXPECT_EQ(rows(), 4);
  // The chunks that it had not announced are deleted.
  EXPECT_THAT(DeletedWhen(16), Not(Contains(ChunkKey(Chunk(kCollector, 1)))));
}

TEST_F(LearningRoundsTest, ACollectorThatWaitedCollectsNothingWhenItIsGone) {
  StartTwo();
  HandOver(kCollector);
  ExpectWaits(kCollector);
  Lose(kCollector);
  HandOver(kOther);
  ExpectWaits(kOther);
}

TEST_F(LearningRoundsTest, CollectorsWaitForALearnerThatIsGone) {
  StartTwo();
  Ask();
  HandOver(kCollector);
  HandOver(kOther);
  ExpectGoesOn(kCollector);
  ExpectGoesOn(kOther);
  EXPECT_THAT(TakeAnswers(kLearner), SizeIs(1));
  Lose(kLearner);  // in the middle of the round
  HandOver(kCollector);
  HandOver(kOther);
  constexpr uint32_t kNextLearner = 9;
  Join(kNextLearner, Hello::LEARNER);
  learner_ = TakeLearnerTask(kNextLearner);
  EXPECT_TRUE(learner_.resume());
  Handle(kNextLearner, Started(learner_.task_id()));
  demands_ = 0;
  Ask(kNextLearner);
  ExpectGoesOn(kCollector);
  ExpectGoesOn(kOther);
  EXPECT_THAT(TakeAnswers(kNextLearner), SizeIs(1));
}

TEST_F(LearningRoundsTest, RowsThatAreTooOldAreCounted) {
  StartTwo();
  HandOver(kCollector);
  HandOver(kOther);
  ExpectWaits(kCollector);
  ExpectWaits(kOther);
  Ask(kLearner, /*collect_iter=*/7);
  ExpectGoesOn(kCollector);
  ExpectGoesOn(kOther);
  EXPECT_THAT(TakeAnswers(kLearner), IsEmpty());
  EXPECT_EQ(OfBuffer().too_old_count(), 8);
  EXPECT_EQ(OfBuffer().sample_count(), 0);
}

}  // namespace
}  // namespace ding
