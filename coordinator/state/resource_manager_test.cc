#include "ding_worker/coordinator/state/resource_manager.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace ding {
namespace {

Resources Of(double cpus, int64_t memory_bytes = 0, int gpus = 0) {
  Resources resources;
  resources.set_cpus(cpus);
  resources.set_memory_bytes(memory_bytes);
  resources.set_gpus(gpus);
  return resources;
}

TEST(NaiveResourceManager, AssignsTheSuitableWorkerWithTheMostCpus) {
  NaiveResourceManager manager;
  manager.Update(Hello::COLLECTOR, 1, Of(2, 100));
  manager.Update(Hello::COLLECTOR, 2, Of(8, 10));
  manager.Update(Hello::COLLECTOR, 3, Of(4, 100, 1));
  manager.Update(Hello::LEARNER, 4, Of(16, 100, 1));
  EXPECT_EQ(manager.Assign(Hello::COLLECTOR, Of(1, 50))->worker, 3u);
  EXPECT_EQ(manager.Assign(Hello::COLLECTOR, Of(1, 50))->resources.memory_bytes(), 100);
  EXPECT_FALSE(manager.Assign(Hello::COLLECTOR, Of(1, 50)).has_value());
  EXPECT_FALSE(manager.Assign(Hello::COLLECTOR, Of(1, 0, 1)).has_value());
  EXPECT_EQ(manager.Assign(Hello::COLLECTOR, Resources())->worker, 2u);
  EXPECT_FALSE(manager.Assign(Hello::COLLECTOR, Resources()).has_value());
}

TEST(NaiveResourceManager, AmongEqualWorkersAssignsTheOneThatIsFreeForLongest) {
  NaiveResourceManager manager;
  for (const uint32_t worker : {7, 5, 6}) manager.Update(Hello::COLLECTOR, worker, Of(2));
  EXPECT_EQ(manager.Assign(Hello::COLLECTOR, Of(1))->worker, 7u);
  manager.Update(Hello::COLLECTOR, 7, Of(2));
  EXPECT_EQ(manager.Assign(Hello::COLLECTOR, Of(1))->worker, 5u);
  EXPECT_EQ(manager.Assign(Hello::COLLECTOR, Of(1))->worker, 6u);
  EXPECT_EQ(manager.Assign(Hello::COLLECTOR, Of(1))->worker, 7u);
}

// The original's have_assigned meant "is free", and its delete ended in a KeyError (D99).
TEST(NaiveResourceManager, KnowsAssignedWorkersAndForgetsDeletedOnes) {
  NaiveResourceManager manager;
  manager.Update(Hello::LEARNER, 1, Of(2));
  manager.Update(Hello::LEARNER, 2, Of(1));
  EXPECT_FALSE(manager.HaveAssigned(Hello::LEARNER, 1));
  EXPECT_EQ(manager.Assign(Hello::LEARNER, Of(1))->worker, 1u);
  EXPECT_TRUE(manager.HaveAssigned(Hello::LEARNER, 1));
  EXPECT_FALSE(manager.HaveAssigned(Hello::COLLECTOR, 1));
  EXPECT_FALSE(manager.HaveAssigned(Hello::LEARNER, 2));

  EXPECT_TRUE(manager.Delete(Hello::LEARNER, 1));  // assigned
  EXPECT_FALSE(manager.HaveAssigned(Hello::LEARNER, 1));
  EXPECT_FALSE(manager.Delete(Hello::LEARNER, 1));
  EXPECT_TRUE(manager.Delete(Hello::LEARNER, 2));  // free
  EXPECT_FALSE(manager.Assign(Hello::LEARNER, Of(1)).has_value());
}

TEST(NaiveResourceManager, ConcurrentThreadsGetDifferentWorkers) {
  constexpr int kWorkers = 200;
  NaiveResourceManager manager;
  std::vector<std::atomic<int>> assigned(kWorkers);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (const auto worker = manager.Assign(Hello::COLLECTOR, Of(1))) {
        ++assigned[worker->worker];
      }
    });
    for (int i = t; i < kWorkers; i += 3) manager.Update(Hello::COLLECTOR, i, Of(i % 4 + 1));
  }
  for (std::thread& thread : threads) thread.join();
  while (const auto worker = manager.Assign(Hello::COLLECTOR, Of(1))) ++assigned[worker->worker];
  for (int i = 0; i < kWorkers; ++i) EXPECT_EQ(assigned[i], 1) << i;
}

}  // namespace
}  // namespace ding
