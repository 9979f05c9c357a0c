// Measures what checkpoints of worker/configs/cartpole_dqn.textproto cost the training.
//   SaveCheckpoint        model and train state at a safe point: how long the training pauses
//   SaveCheckpointBaseline   a write of the same bytes to one file
//   SnapshotBuffer        a snapshot of a full replay buffer: how long the training pauses for it;
//                         the rows are shared, not copied
// The working folder must be the root of the checkout.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/testing/benchmark_parts.h"

namespace ding {
namespace {

constexpr int64_t kBufferRows = 20000;

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

// Returns the bytes of the learner's tensors, one tensor after the other.
std::string LearnerBytes(const ILearner& learner) {
  StateDict state;
  Check(learner.policy()->SaveModel(&state));
  Check(learner.policy()->SaveTrainState(&state));
  std::string bytes;
  for (const auto& [name, tensor] : state.tensors()) {
    bytes.append(tensor.bytes().data(), tensor.bytes().size());
  }
  return bytes;
}

void BM_SaveCheckpoint(benchmark::State& state) {
  CartPolePipeline pipeline(LoadCartPoleConfig());
  for (auto _ : state) {
    Check(pipeline->learner()->SaveCheckpoint("benchmark"));
    state.PauseTiming();
    Check(pipeline->checkpoints()->Flush());
    state.ResumeTiming();
  }
  state.SetLabel("aim=5ms");
}
BENCHMARK(BM_SaveCheckpoint)->UseRealTime();

void BM_SaveCheckpointBaseline(benchmark::State& state) {
  CartPolePipeline pipeline(LoadCartPoleConfig());
  const std::string bytes = LearnerBytes(*pipeline->learner());
  std::string folder = "/tmp/checkpoint_benchmark_XXXXXX";
  DING_CHECK(mkdtemp(folder.data()) != nullptr) << "no temporary folder";
  for (auto _ : state) Check(WriteFileAtomically(JoinPath(folder, "file"), bytes));
  Check(RemoveRecursively(folder));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}
BENCHMARK(BM_SaveCheckpointBaseline)->UseRealTime();

void BM_SnapshotBuffer(benchmark::State& state) {
  CartPolePipeline pipeline(LoadCartPoleConfig());
  pipeline.FillBuffer(kBufferRows);
  for (auto _ : state) benchmark::DoNotOptimize(pipeline->buffer()->Snapshot());
  state.SetItemsProcessed(state.iterations() * kBufferRows);
}
BENCHMARK(BM_SnapshotBuffer);

}  // namespace
}  // namespace ding
