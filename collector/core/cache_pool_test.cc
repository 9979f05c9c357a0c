#include "ding_worker/collector/core/cache_pool.h"

#include <string>

#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Pointee;

TEST(CachePoolTest, BeginsEmpty) {
  const CachePool<int> pool("obs", 2);
  EXPECT_EQ(pool.env_num(), 2);
  EXPECT_EQ(pool.Get(0), nullptr);
  EXPECT_EQ(pool.Get(1), nullptr);
}

TEST(CachePoolTest, ChangesTheValueOfOneEnvOnly) {
  CachePool<std::string> pool("obs", 3);
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

TEST(CachePoolTest, Update_SeveralEnvs_LeavesTheOthers) {
  CachePool<int> pool("actions", 3);
  EXPECT_EQ(pool.name(), "actions");
  pool.Update(1, 7);
  pool.Update({{0, 5}, {2, 6}});
  EXPECT_THAT(pool.Get(0), Pointee(5));
  EXPECT_THAT(pool.Get(1), Pointee(7));
  EXPECT_THAT(pool.Get(2), Pointee(6));
}

TEST(CachePoolTest, Update_Deepcopy_DecidesWhetherALaterChangeIsSeen) {
  for (const bool deepcopy : {false, true}) {
    CachePool<Tensor> pool("obs", 1, deepcopy);
    Tensor obs = Tensor::Zeros(DType::kFloat32, {1});
    pool.Update(0, obs);
    obs.mutable_data<float>()[0] = 3;
    EXPECT_EQ(pool.Get(0)->data<float>()[0], deepcopy ? 0 : 3);
  }
}

TEST(CachePoolTest, AnEnvThatDoesNotExistHasNoValue) {
  CachePool<int> pool("obs", 2);
  EXPECT_EQ(pool.Get(-1), nullptr);
  EXPECT_EQ(pool.Get(2), nullptr);
  EXPECT_DEATH(pool.Update(2, 1), "obs: env 2 is none of the 2 envs");
}

}  // namespace
}  // namespace ding
