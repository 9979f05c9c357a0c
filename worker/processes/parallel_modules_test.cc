// The modules that only parallel runs use, as `--list_modules` prints them.
#include "ding_worker/worker/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(ParallelModulesTest, AreListedWithHelp) {
  EXPECT_THAT(ListModules(), testing::EndsWith(R"(parallel collector:
  marine    plays games of two, one policy against another or itself, for a league
  zergling  plays with one policy: envs for one player, and games against itself
commander:
  one_vs_one  trains one policy in games of two, against itself and its past versions
  solo        trains one policy, with an evaluation every eval_interval
comm collector:
  flask_fs    DI-engine's name for grpc_fs
  grpc_fs     data through a store, messages over a session
  grpc_redis  like grpc_fs; refuses a store that is not in Redis
comm learner:
  flask_fs    DI-engine's name for grpc_fs
  grpc_fs     data through a store, messages over a session
  grpc_redis  like grpc_fs; refuses a store that is not in Redis
all-reduce:
  tcp  averages over learners in a ring, over TCP without encryption
store:
  file    file:/FOLDER: files, on tmpfs or on a file system that machines share
  mem     mem:NAME: memory of this process, for runs in one process and for tests
  redis   redis:HOST:PORT/PREFIX: a Redis server, for several machines
  rediss  rediss:HOST:PORT/PREFIX?tls_ca=/FILE: the same with TLS
codec:
  lz4   LZ4: cheap enough for data that are read once
  zstd  Zstandard: smaller than lz4, for stores over a slow network
)"));
}

}  // namespace
}  // namespace ding
