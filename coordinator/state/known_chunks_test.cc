#include "ding_worker/coordinator/state/known_chunks.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsNull;
using testing::UnorderedElementsAre;

using Marked = KnownChunks::Marked;

TEST(KnownChunksTest, AChunkIsStoredUntilItIsForgotten) {
  KnownChunks chunks;
  chunks.Add({1, 2, 3});
  EXPECT_EQ(chunks.stored(), 3);
  EXPECT_THAT(chunks.Leave({2, 3}), ElementsAre(2, 3));
  EXPECT_EQ(chunks.stored(), 3) << "somebody may read them";
  chunks.Forget({2});
  EXPECT_EQ(chunks.stored(), 2);
  EXPECT_EQ(chunks.added(), 3);
}

TEST(KnownChunksTest, ABadChunkIsMarkedOnceAndHasNoDataWhenItLeaves) {
  KnownChunks chunks;
  chunks.Add({1, 2, 3});
  EXPECT_THAT(chunks.undrawable(), IsNull());
  EXPECT_EQ(chunks.MarkBad(9), Marked::kUnknown);
  EXPECT_EQ(chunks.MarkBad(2), Marked::kHeld);
  EXPECT_EQ(chunks.MarkBad(2), Marked::kUnknown);
  EXPECT_EQ(chunks.stored(), 2);
  const std::shared_ptr<const ChunkSet> before = chunks.undrawable();
  EXPECT_THAT(*before, UnorderedElementsAre(2));
  chunks.MarkBad(3);
  EXPECT_THAT(*chunks.undrawable(), UnorderedElementsAre(2, 3));
  EXPECT_THAT(*before, UnorderedElementsAre(2)) << "who draws with it goes on";
  EXPECT_THAT(chunks.Leave({1, 2, 3}), ElementsAre(1));
  EXPECT_THAT(chunks.undrawable(), IsNull());
  EXPECT_EQ(chunks.stored(), 1);
  EXPECT_EQ(chunks.marked(), 2);
}

TEST(KnownChunksTest, AChunkThatHasLeftIsMarkedOnce) {
  KnownChunks chunks;
  chunks.Add({1});
  EXPECT_THAT(chunks.Leave({1}), ElementsAre(1));
  EXPECT_EQ(chunks.MarkBad(1), Marked::kLeft);
  EXPECT_EQ(chunks.MarkBad(1), Marked::kUnknown);
  EXPECT_THAT(chunks.undrawable(), IsNull());
  chunks.Forget({1});
  EXPECT_EQ(chunks.MarkBad(1), Marked::kUnknown);
  EXPECT_THAT(chunks.Leave({1}), IsEmpty());
}

}  // namespace
}  // namespace ding
