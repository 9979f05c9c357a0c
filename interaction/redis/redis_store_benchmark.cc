// Measures how values are handed over through a Redis server on this machine, compared with bare
// hiredis. file_store_benchmark has the figures of the file store.
//
//   PutGetDelete/bytes         a value is put in three pieces, got into the same string, deleted
//   PutGetDeleteFloor/bytes    SET, GET and UNLINK of the same bytes with hiredis, without a
//                              checksum
//   PutGetDeleteThreads/bytes  the same by two threads, each with values of its own
//   PutGetDeleteKept/bytes/..  the same with an append-only file in the temporary folder that is
//                              flushed never (0) or before each reply (1)
//   PutGetDeleteLz4/bytes      values of which half is zero, compressed
//   RowsOfChunks/rows          chunks of that many transitions of 4 floats: encoded, put, got,
//                              decoded, deleted
//
// The goals are more than 100 k rows/s, and more than 250 MB/s at 64 KiB.
#include <hiredis/hiredis.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"

namespace ding {
namespace {

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

std::string Value(int64_t size) {
  std::string value(static_cast<size_t>(size), '\0');
  uint32_t random = 1;
  for (size_t i = 0; i < value.size() / 2; ++i) {
    random = random * 1664525 + 1013904223;
    value[i] = static_cast<char>(random >> 24);
  }
  return value;
}

void PutGetDeleteIn(benchmark::State& state, Store* store) {
  const std::string key = absl::StrCat("data/1/", state.thread_index());
  const std::string value = Value(state.range(0));
  const absl::string_view all = value;
  std::string read;
  for (auto _ : state) {
    Check(store->Put(key, {all.substr(0, 100), all.substr(100, all.size() / 2),
                           all.substr(100 + all.size() / 2)}));
    Check(store->Get(key, &read));
    Check(store->Delete(key));
  }
  DING_CHECK(read == value);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void PutGetDeleteBy(benchmark::State& state, absl::string_view settings) {
  const std::unique_ptr<RedisServer> redis = RedisServer::Start({}).value();
  PutGetDeleteIn(state, create_store(absl::StrCat(redis->Url("run"), settings)).value().get());
}

void PutGetDelete(benchmark::State& state) {
  PutGetDeleteBy(state, "");
  if (state.range(0) == 64 << 10) state.SetLabel("aim=250MB/s");
}

// The objects that the threads of a benchmark share. A server ends with the thread that started it,
// so none of these threads may start it.
struct Shared {
  std::unique_ptr<RedisServer> redis;
  std::unique_ptr<Store> store;
};
Shared shared;

void StartShared(const benchmark::State& /*state*/) {
  shared.redis = RedisServer::Start({}).value();
  shared.store = create_store(shared.redis->Url("run")).value();
}

void EndShared(const benchmark::State& /*state*/) { shared = {}; }

void PutGetDeleteThreads(benchmark::State& state) { PutGetDeleteIn(state, shared.store.get()); }

void PutGetDeleteKept(benchmark::State& state) {
  RedisServer::Options options;
  options.append_fsync = state.range(1) == 0 ? "no" : "always";
  const std::unique_ptr<RedisServer> redis = RedisServer::Start(options).value();
  PutGetDeleteIn(state, create_store(redis->Url("run")).value().get());
}

void PutGetDeleteLz4(benchmark::State& state) { PutGetDeleteBy(state, "?compress=lz4"); }

void PutGetDeleteFloor(benchmark::State& state) {
  const std::unique_ptr<RedisServer> redis = RedisServer::Start({}).value();
  redisContext* const context = redisConnect("127.0.0.1", redis->port());
  DING_CHECK(context != nullptr && context->err == 0);
  const std::string value = Value(state.range(0));
  std::string read(value.size(), '\0');
  for (auto _ : state) {
    freeReplyObject(redisCommand(context, "SET data/1/2 %b", value.data(), value.size()));
    auto* const reply = static_cast<redisReply*>(redisCommand(context, "GET data/1/2"));
    DING_CHECK(reply != nullptr && reply->len == value.size());
    std::memcpy(&read[0], reply->str, reply->len);
    freeReplyObject(reply);
    freeReplyObject(redisCommand(context, "UNLINK data/1/2"));
  }
  redisFree(context);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// Makes a chunk with rows of eight envs.
SegmentBatch MakeChunk(int64_t rows) {
  const SpecPtr spec =
      MakeSpec({Box("obs", {4}), Discrete("action", 2), Scalar("reward", DType::kFloat32)}).value();
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  BatchBuilder final_obs = BatchBuilder::Create(MakeSpec({Box("obs", {4})}).value(), 8).value();
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(builder.view().raw_column(i), i, static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  std::memset(final_obs.view().raw_column(0), 1, 8 * 4 * sizeof(float));
  SegmentBatch chunk;
  chunk.rows = std::move(builder).Seal(rows);
  chunk.final_obs = std::move(final_obs).Seal(8);
  for (int64_t env = 0; env < 8; ++env) {
    chunk.segments.push_back({env, 0, env * rows / 8, rows / 8, SegmentEnd::kCut});
  }
  return chunk;
}

void RowsOfChunks(benchmark::State& state) {
  const std::unique_ptr<RedisServer> redis = RedisServer::Start({}).value();
  const std::unique_ptr<Store> store = create_store(redis->Url("run")).value();
  const SegmentBatch chunk = MakeChunk(state.range(0));
  std::string read;
  for (auto _ : state) {
    Check(store->Put("data/1/2", EncodedSegments(chunk).pieces()));
    Check(store->Get("data/1/2", &read));
    DING_CHECK(DecodeSegments(read)->rows.rows() == state.range(0));
    Check(store->Delete("data/1/2"));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetLabel("aim=100k/s");
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20)->UseRealTime();
}

BENCHMARK(PutGetDeleteFloor)->Apply(Sizes);
BENCHMARK(PutGetDelete)->Apply(Sizes);
BENCHMARK(PutGetDeleteThreads)
    ->Arg(64 << 10)
    ->Threads(2)
    ->UseRealTime()
    ->Setup(StartShared)
    ->Teardown(EndShared);
BENCHMARK(PutGetDeleteKept)->Args({64 << 10, 0})->Args({64 << 10, 1})->UseRealTime();
BENCHMARK(PutGetDeleteLz4)->Arg(4 << 10)->Arg(64 << 10)->UseRealTime();
BENCHMARK(RowsOfChunks)->Arg(128)->Arg(1024)->UseRealTime();

}  // namespace
}  // namespace ding
