#include <cstdint>
#include <set>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/replay_buffer/selection/sequence_index.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(RankedIds, RandomOperationsAgreeWithASet) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "ranked_ids");
    const auto capacity = static_cast<int64_t>(1 + rng.UniformInt(40));
    auto begin = static_cast<int64_t>(rng.UniformInt(1000));
    RankedIds ids(capacity, begin);
    std::set<int64_t> expected;
    for (int step = 0; step < 300; ++step) {
      if (rng.UniformInt(4) == 0) {
        begin += static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(2 * capacity)));
        ids.EvictBefore(begin);
        expected.erase(expected.begin(), expected.lower_bound(begin));
      } else {
        const int64_t id =
            begin + static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(capacity)));
        if (expected.insert(id).second) ids.Insert(id);
      }
      ASSERT_EQ(ids.size(), static_cast<int64_t>(expected.size()));
      int64_t rank = 0;
      for (const int64_t id : expected) ASSERT_EQ(ids.Select(rank++), id) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace ding
