#include <cstdint>
#include <utility>
#include <vector>

#include "ding_worker/replay_buffer/selection/staleness_remover.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::vector<std::pair<int64_t, int64_t>> Take(StalenessIndex* index, int64_t iter) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  index->TakeUpTo(iter, [&taken](int64_t begin, int64_t end) { taken.emplace_back(begin, end); });
  return taken;
}

TEST(StalenessIndex, FindsRunsByIterationOnce) {
  StalenessIndex index;
  index.Add(0, {5, 5, 2, 9, -1, 2});
  EXPECT_EQ(index.runs(), 4);
  EXPECT_THAT(Take(&index, 1), IsEmpty());
  EXPECT_THAT(Take(&index, 5), ElementsAre(Pair(2, 3), Pair(5, 6), Pair(0, 2)));
  EXPECT_THAT(Take(&index, 5), IsEmpty());
}

TEST(StalenessIndex, RunsContinueAcrossPushesEvenAfterTheyWereTaken) {
  StalenessIndex index;
  index.Add(0, {3, 3});
  index.Add(2, {3});
  EXPECT_EQ(index.runs(), 1);
  EXPECT_THAT(Take(&index, 3), ElementsAre(Pair(0, 3)));
  index.Add(3, {3});
  EXPECT_THAT(Take(&index, 3), ElementsAre(Pair(0, 4)));
}

TEST(StalenessIndex, ForgetsEvictedRows) {
  StalenessIndex index;
  for (int64_t id = 0; id < 100; ++id) {
    index.Add(id, {id % 7});
    index.EvictBefore(id - 9);
    EXPECT_LE(index.runs(), 10);
  }
  index.EvictBefore(100);
  EXPECT_EQ(index.runs(), 0);
  EXPECT_THAT(Take(&index, 100), IsEmpty());
}

}  // namespace
}  // namespace ding
