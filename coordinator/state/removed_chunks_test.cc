#include "ding_worker/coordinator/state/removed_chunks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(RemovedChunks, AreDeletableAtOnceWithoutAReader) {
  RemovedChunks removed;
  removed.Add({7, 8});
  EXPECT_THAT(removed.TakeDeletable(), ElementsAre(7, 8));
  EXPECT_THAT(removed.TakeDeletable(), IsEmpty());
}

TEST(RemovedChunks, WaitOnlyForDrawsThatBeganBeforeTheyLeft) {
  RemovedChunks removed;
  removed.BeginDraw(1);
  removed.BeginDraw(2);
  removed.Add({7});
  removed.BeginDraw(3);
  removed.Add({8});
  EXPECT_THAT(removed.TakeDeletable(), IsEmpty());
  removed.Read(1);
  EXPECT_THAT(removed.TakeDeletable(), IsEmpty());
  removed.Read(2);
  EXPECT_THAT(removed.TakeDeletable(), ElementsAre(7));
  EXPECT_EQ(removed.unread(), 1u);
  removed.Read(3);
  EXPECT_THAT(removed.TakeDeletable(), ElementsAre(8));
}

TEST(RemovedChunks, DoNotWaitForADrawThatWasNotAnswered) {
  RemovedChunks removed;
  removed.BeginDraw(1);
  removed.Add({7});
  removed.CancelDraw(1);
  EXPECT_THAT(removed.TakeDeletable(), ElementsAre(7));
}

TEST(RemovedChunks, DoNotWaitForAReaderThatIsGone) {
  RemovedChunks removed;
  removed.BeginDraw(40);
  removed.Add({7});
  removed.ForgetReader();
  removed.BeginDraw(1);  // of the next one
  EXPECT_THAT(removed.TakeDeletable(), ElementsAre(7));
  removed.Add({8});
  EXPECT_THAT(removed.TakeDeletable(), IsEmpty());
  removed.Read(1);
  EXPECT_THAT(removed.TakeDeletable(), ElementsAre(8));
}

}  // namespace
}  // namespace ding
