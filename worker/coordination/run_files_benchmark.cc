// Measures how a checkpoint is sent to Redis on this machine, compared with the store alone.
//
//   Publish/MiB       a checkpoint of one large file replaces the one before it
//   PublishBaseline/MiB  Store::Put() of the same bytes as one value, over the value before it
//   Fetch/MiB         the checkpoint is brought to a folder that has an older one
//   PublishLog        a log of 1 MiB has grown by 200 bytes
//
// The aim is at least 0.83 of the rate of PublishBaseline.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/worker/coordination/run_files.h"

namespace ding {
namespace {

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

// A Redis, and a folder with a file of a checkpoint.
struct Bench {
  explicit Bench(int64_t bytes) : value(static_cast<size_t>(bytes), 'x') {
    std::string folder =
        std::filesystem::temp_directory_path().string() + "/run_files_benchmark_XXXXXX";
    path = mkdtemp(folder.data());
    Check(CreateDirectories(JoinPath(path, "a/ckpt/one")));
    Check(CreateDirectories(JoinPath(path, "a/log")));
  }
  ~Bench() { RemoveRecursively(path).IgnoreError(); }
  std::unique_ptr<RunFiles> Open(const std::string& folder) const {
    return std::make_unique<RunFiles>(create_store(redis->Url("run.files")).value(),
                                      JoinPath(path, folder), folder);
  }
  void WriteCheckpoint() const {
    Check(WriteFileAtomically(JoinPath(path, "a/ckpt/one/model"), value));
    Check(WriteFileAtomically(JoinPath(path, "a/ckpt/one/manifest.json"), "{}"));
  }

  const std::unique_ptr<RedisServer> redis = RedisServer::Start({}).value();
  const std::string value;
  std::string path;
};

void Publish(benchmark::State& state) {
  const Bench bench(state.range(0) << 20);
  const auto files = bench.Open("a");
  for (auto _ : state) {
    state.PauseTiming();
    bench.WriteCheckpoint();
    state.ResumeTiming();
    Check(files->Publish());
  }
  state.SetBytesProcessed(state.iterations() * (state.range(0) << 20));
}

void PublishBaseline(benchmark::State& state) {
  const Bench bench(state.range(0) << 20);
  const auto store = create_store(bench.redis->Url("run")).value();
  for (auto _ : state) {
    state.PauseTiming();
    bench.WriteCheckpoint();
    state.ResumeTiming();
    Check(store->Put("checkpoint", {absl::string_view(bench.value)}));
  }
  state.SetBytesProcessed(state.iterations() * (state.range(0) << 20));
}

void Fetch(benchmark::State& state) {
  const Bench bench(state.range(0) << 20);
  const auto files = bench.Open("a");
  const auto reader = bench.Open("b");
  for (auto _ : state) {
    state.PauseTiming();
    bench.WriteCheckpoint();
    Check(files->Publish());
    Check(RemoveRecursively(JoinPath(bench.path, "b")));
    state.ResumeTiming();
    Check(reader->Fetch([](const StoredFile&) { return true; }));
  }
  state.SetBytesProcessed(state.iterations() * (state.range(0) << 20));
}

void PublishLog(benchmark::State& state) {
  const Bench bench(1);
  const auto files = bench.Open("a");
  std::ofstream log(JoinPath(bench.path, "a/log/a.csv"));
  log << std::string(1 << 20, 'x') << std::flush;
  Check(files->Publish());
  const std::string line(200, 'y');
  for (auto _ : state) {
    log << line << std::flush;
    Check(files->Publish());
  }
}

BENCHMARK(Publish)->Arg(1)->Arg(16)->Arg(64)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(PublishBaseline)->Arg(1)->Arg(16)->Arg(64)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Fetch)->Arg(64)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(PublishLog)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ding
