#include "ding_worker/collector/core/cache_pool.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Pointee;

TEST(CachePoolTest, BeginsEmpty) {
  const CachePool<int> pool(2);
  EXPECT_EQ(pool.env_num(), 2);
  EXPECT_EQ(pool.Get(0), nullptr);
  EXPECT_EQ(pool.Get(1), nullptr);
}

TEST(CachePoolTest, ChangesTheValueOfOneEnvOnly) {
  CachePool<std::string> pool(3);
  pool.Update(0, "a");
  pool.Update(2, "b");
  pool.Update(2, "c");
  EXPECT_THAT(pool.Get(0), Pointee(std::string("a")));
  EXPECT_EQ(pool.Get(1), nullptr);
  EXPECT_THAT(pool.Get(2), Pointee(std::string("c")));
  pool.Reset(0);
  EXPECT_EQ(pool.Get(0), nullptr);
  EXPECT_THAT(pool.Get(2), Pointee(std::string("c")));
}

TEST(CachePoolTest, AnEnvThatDoesNotExistHasNoValue) {
  CachePool<int> pool(2);
  EXPECT_EQ(pool.Get(-1), nullptr);
  EXPECT_EQ(pool.Get(2), nullptr);
  EXPECT_DEATH(pool.Update(2, 1), "env 2 is none of the 2 envs");
}

}  // namespace
}  // namespace ding
