#include "ding_worker/coordinator/state/claim_checks.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/testing/test_items.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(CheckPaceTest, AllowsTheStepsThatAWorkerCanMakeInTheTime) {
  EXPECT_THAT(CheckPace("task_0", 1000000, absl::ZeroDuration()), IsOk());
  EXPECT_THAT(CheckPace("task_0", 1000001, absl::ZeroDuration()),
              StatusIs(kInvalid, HasSubstr("1000001 steps or rows in 0 s of task_0, expected at "
                                           "most 1e+07 per second")));
  EXPECT_THAT(CheckPace("task_0", 21000000, absl::Seconds(2)), IsOk());
  EXPECT_THAT(CheckPace("task_0", 21000001, absl::Seconds(2)), StatusIs(kInvalid));
}

TEST(CheckFirstIterTest, AllowsTheIterationsThatItsPredecessorMayHaveTrained) {
  EXPECT_THAT(CheckFirstIter("task_0", 1000500, 500, absl::ZeroDuration()), IsOk());
  EXPECT_THAT(CheckFirstIter("task_0", 1000501, 500, absl::ZeroDuration()),
              StatusIs(kInvalid,
                       HasSubstr("task_0 begins at train iteration 1000501, expected "
                                 "an iteration that its predecessor can have reached since 500")));
  EXPECT_THAT(CheckFirstIter("task_0", 1000501, 500, absl::Seconds(1)), IsOk());
}

TEST(CheckItemLayoutTest, ExpectsTheColumnsAndOneRowEach) {
  const SegmentBatch items = TestItems({{7, 0, 1}, {7, 1, 1}});
  EXPECT_THAT(CheckItemLayout(items.rows.spec(), {}, items), IsOk());
  EXPECT_THAT(CheckItemLayout(items.rows.spec(), {}, TestItems({{7, 0, 1}, {7, 1, 2}})),
              StatusIs(kInvalid, HasSubstr("an item of 2 rows, expected 1")));
  EXPECT_THAT(CheckItemLayout(SegmentBatch().rows.spec(), {}, items), StatusIs(kInvalid));
}

TEST(CheckItemLayoutTest, ExpectsTheLengthOfSequences) {
  const SegmentBatch full = TestItems({{7, 0, 4}, {7, 3, 4}});
  const SegmentBatch shorter = TestItems({{7, 0, 4}, {7, 3, 2}});
  const SegmentBatch longer = TestItems({{7, 0, 5}});
  ItemSequences sequences;
  sequences.length = 4;
  EXPECT_THAT(CheckItemLayout(full.rows.spec(), sequences, full), IsOk());
  EXPECT_THAT(CheckItemLayout(full.rows.spec(), sequences, shorter),
              StatusIs(kInvalid, HasSubstr("an item of 2 rows, expected 4")));
  sequences.padding = true;
  EXPECT_THAT(CheckItemLayout(full.rows.spec(), sequences, shorter), IsOk());
  EXPECT_THAT(CheckItemLayout(full.rows.spec(), sequences, longer),
              StatusIs(kInvalid, HasSubstr("an item of 5 rows, expected at most 4")));
  ItemSequences episodes;
  episodes.whole_episodes = true;
  for (const SegmentBatch* const items : {&full, &shorter, &longer}) {
    EXPECT_THAT(CheckItemLayout(full.rows.spec(), episodes, *items), IsOk());
  }
}

TEST(CheckCollectItersTest, ExpectsIterationsOfPublishedPolicies) {
  for (const int64_t iter : {-1, 0, 7}) {
    EXPECT_THAT(CheckCollectIters(TestItemsOfChunk(7, 2, iter), 7), IsOk()) << iter;
  }
  for (const int64_t iter : {-2, 8}) {
    EXPECT_THAT(
        CheckCollectIters(TestItemsOfChunk(7, 2, iter), 7),
        StatusIs(kInvalid, HasSubstr("expected -1 to 7, that of the newest published policy")))
        << iter;
  }
  EXPECT_THAT(CheckCollectIters(SegmentBatch(), 7), IsOk()) << "items without iterations";
}

TEST(CheckPlayedVersionTest, ExpectsAPublishedVersion) {
  CollectorTask task;
  task.set_task_id("task_0");
  task.set_policy_id("policy_0");
  CollectorFinished info;
  info.set_policy_version(3);
  info.set_train_iter(9);
  EXPECT_THAT(CheckPlayedVersion(task, info, 3, 9), IsOk());
  EXPECT_THAT(CheckPlayedVersion(task, info, 2, 9),
              StatusIs(kInvalid, HasSubstr("task_0 was played by version 3 of policy_0, train "
                                           "iteration 9, expected at most 2 and 9")));
  EXPECT_THAT(CheckPlayedVersion(task, info, 3, 8), StatusIs(kInvalid));
}

}  // namespace
}  // namespace ding
