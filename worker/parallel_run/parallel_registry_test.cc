#include "ding_worker/worker/parallel_run/parallel_registry.h"

#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ParallelRegistryTest, ListsEveryRegistryWithHelpForWhatIsLinked) {
  EXPECT_EQ(ListParallelModules(), R"(parallel collector:
  marine    plays games of two, one policy against another or itself, for a league
  zergling  plays with one policy: envs for one player, and games against itself
commander:
  one_vs_one  trains one policy in games of two, against itself and its past versions
  solo        trains one policy, with an evaluation every eval_interval
comm collector:
  flask_fs    DI-engine's name for grpc_fs
  grpc_fs     data through a store that is not in Redis, messages over a session
  grpc_redis  data through a store in Redis, messages over a session
comm learner:
  flask_fs    DI-engine's name for grpc_fs
  grpc_fs     data through a store that is not in Redis, messages over a session
  grpc_redis  data through a store in Redis, messages over a session
all-reduce: none in this program
store:
  file   file:/FOLDER: files, on tmpfs or on a file system that machines share
  mem    mem:NAME: memory of this process, for runs in one process and for tests
  redis  redis:HOST:PORT/PREFIX: a Redis server, for several machines
codec:
  lz4   LZ4: cheap enough for data that are read once
  zstd  Zstandard: smaller than lz4, for stores over a slow network
)");
}

}  // namespace
}  // namespace ding
