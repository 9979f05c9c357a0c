#include "ding_worker/worker/parallel_run/parallel_registry.h"

#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ParallelRegistryTest, ListsTheLinkedModulesByRegistry) {
  EXPECT_EQ(ListParallelModules(),
            "parallel collector: marine, zergling\n"
            "commander: naive, one_vs_one, solo\n"
            "comm collector: flask_fs, grpc_fs, grpc_redis\n"
            "comm learner: flask_fs, grpc_fs, grpc_redis\n"
            "all-reduce: \n"
            "store: file, mem, redis\n"
            "codec: lz4, zstd\n");
}

}  // namespace
}  // namespace ding
