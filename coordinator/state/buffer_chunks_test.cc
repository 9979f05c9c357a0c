#include "ding_worker/coordinator/state/buffer_chunks.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using Marked = BufferChunks::Marked;

TEST(BufferChunksTest, AChunkIsStoredUntilItIsForgotten) {
  BufferChunks chunks;
  chunks.Add({1, 2, 3});
  EXPECT_EQ(chunks.stored(), 3);
  chunks.BeginDraw(1);
  chunks.Leave({2, 3});
  EXPECT_EQ(chunks.stored(), 3) << "they may be read";
  chunks.Read(1);
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(2, 3));
  chunks.Forget({1});
  EXPECT_EQ(chunks.stored(), 0);
  EXPECT_EQ(chunks.added(), 3);
}

TEST(BufferChunksTest, ABadChunkIsMarkedOnceAndHasNoDataWhenItLeaves) {
  BufferChunks chunks;
  chunks.Add({1, 2, 3});
  EXPECT_THAT(*chunks.undrawable(), IsEmpty());
  EXPECT_EQ(chunks.MarkBad(9), Marked::kUnknown);
  EXPECT_EQ(chunks.MarkBad(2), Marked::kHeld);
  EXPECT_EQ(chunks.MarkBad(2), Marked::kUnknown);
  EXPECT_EQ(chunks.stored(), 2);
  const std::shared_ptr<const ChunkSet> before = chunks.undrawable();
  EXPECT_THAT(*before, UnorderedElementsAre(2));
  chunks.MarkBad(3);
  EXPECT_THAT(*chunks.undrawable(), UnorderedElementsAre(2, 3));
  EXPECT_THAT(*before, UnorderedElementsAre(2)) << "who draws with it goes on";
  chunks.Leave({1, 2, 3});
  EXPECT_THAT(*chunks.undrawable(), IsEmpty());
  EXPECT_EQ(chunks.stored(), 1);
  EXPECT_EQ(chunks.marked(), 2);
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(1));
}

TEST(BufferChunksTest, AChunkThatHasLeftIsMarkedOnce) {
  BufferChunks chunks;
  chunks.Add({1});
  chunks.Leave({1});
  EXPECT_EQ(chunks.MarkBad(1), Marked::kLeft);
  EXPECT_EQ(chunks.MarkBad(1), Marked::kUnknown);
  EXPECT_THAT(*chunks.undrawable(), IsEmpty());
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(1));
  EXPECT_EQ(chunks.MarkBad(1), Marked::kUnknown);
  chunks.Leave({1});
  EXPECT_THAT(chunks.TakeDeletable(), IsEmpty());
}

TEST(BufferChunksTest, TakeDeletable_NoReader_ReturnsAllThatLeft) {
  BufferChunks chunks;
  chunks.Add({7, 8});
  chunks.Leave({7, 8});
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(7, 8));
  EXPECT_THAT(chunks.TakeDeletable(), IsEmpty());
}

TEST(BufferChunksTest, TakeDeletable_WaitsForDrawsThatBeganBefore) {
  BufferChunks chunks;
  chunks.Add({7, 8});
  chunks.BeginDraw(1);
  chunks.BeginDraw(2);
  chunks.Leave({7});
  chunks.BeginDraw(3);
  chunks.Leave({8});
  EXPECT_THAT(chunks.TakeDeletable(), IsEmpty());
  chunks.Read(1);
  EXPECT_THAT(chunks.TakeDeletable(), IsEmpty());
  chunks.Read(2);
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(7));
  EXPECT_EQ(chunks.unread(), 1u);
  chunks.Read(3);
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(8));
}

TEST(BufferChunksTest, TakeDeletable_DrawNotAnswered_DoesNotWait) {
  BufferChunks chunks;
  chunks.Add({7, 8});
  chunks.BeginDraw(1);
  chunks.Leave({7});
  chunks.CancelDraw(1);
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(7));
}

TEST(BufferChunksTest, TakeDeletable_ReaderGone_DoesNotWait) {
  BufferChunks chunks;
  chunks.Add({7, 8});
  chunks.BeginDraw(40);
  chunks.Leave({7});
  chunks.ForgetReader();
  chunks.BeginDraw(1);  // of the next one
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(7));
  chunks.Leave({8});
  EXPECT_THAT(chunks.TakeDeletable(), IsEmpty());
  chunks.Read(1);
  EXPECT_THAT(chunks.TakeDeletable(), ElementsAre(8));
}

}  // namespace
}  // namespace ding
