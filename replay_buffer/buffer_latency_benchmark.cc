// Measures the 99th percentile of the time of a draw of 64 rows while another thread pushes as fast
// as it can, and the median when no thread pushes. The buffer has 100,000 rows with observations of
// 4 x float32. Results are means of the percentiles of rounds of 4096 draws.
//
//   NaiveP99WhilePushing/rows, AdvancedP99WhilePushing/rows   pushes have `rows` rows of a stream;
//                                                             counter rows_pushed is per second
//   NaiveP99WhilePushingBaseline, AdvancedP99WhilePushingBaseline   the median of the same without pushes
//
// The results are meaningful only if two cores have nothing else to do.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace ding {
namespace {

constexpr int64_t kRows = 100000;
constexpr int64_t kDrawRows = 64;
constexpr size_t kDrawsOfARound = 4096;

Batch Touched(const SpecPtr& spec, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(builder.view().raw_column(i), 1, static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return std::move(builder).Seal(rows);
}

SegmentBatch MakePush(int64_t rows) {
  const FieldSpec obs = Box("obs", {4});
  SegmentBatch push;
  push.rows = Touched(MakeSpec({obs, Discrete("action", 2), Scalar("reward", DType::kFloat32),
                                Scalar("collect_iter", DType::kInt64)})
                          .value(),
                      rows);
  push.final_obs = Touched(MakeSpec({obs}).value(), 1);
  push.segments = {{0, 0, 0, rows, SegmentEnd::kCut}};
  return push;
}

// Pushes the next rows of its stream.
void PushNext(IBuffer* buffer, SegmentBatch* push) {
  DING_CHECK(buffer->Push(*push, 0).ok());
  push->segments[0].first_step += push->rows.rows();
}

// Measures the seconds of each draw of a round, in increasing order.
void DrawRound(IBuffer* buffer, std::vector<double>* seconds) {
  for (double& value : *seconds) {
    const Timer timer(Clock::Real());
    benchmark::DoNotOptimize(buffer->Sample(kDrawRows, 0).value());
    value = absl::ToDoubleSeconds(timer.Elapsed());
  }
  std::sort(seconds->begin(), seconds->end());
}

void Draw(benchmark::State& state, std::unique_ptr<IBuffer> buffer, bool pushing, double quantile) {
  const int64_t push_rows = state.range(0);
  SegmentBatch push = MakePush(push_rows);
  for (int64_t rows = 0; rows < kRows; rows += push_rows) PushNext(buffer.get(), &push);
  std::atomic<bool> done{false};
  int64_t rows_pushed = 0;
  std::thread pusher([&] {
    for (; pushing && !done; rows_pushed += push_rows) PushNext(buffer.get(), &push);
  });
  std::vector<double> seconds(kDrawsOfARound);
  const Timer timer(Clock::Real());
  for (auto _ : state) {
    DrawRound(buffer.get(), &seconds);
    state.SetIterationTime(seconds[static_cast<size_t>(quantile * kDrawsOfARound)]);
  }
  const double elapsed = absl::ToDoubleSeconds(timer.Elapsed());
  done = true;
  pusher.join();
  state.counters["rows_pushed"] = static_cast<double>(rows_pushed) / elapsed;
  if (pushing) state.SetLabel("aim=0.2");
}

std::unique_ptr<IBuffer> Naive() {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = kRows;
  return NaiveReplayBuffer::Create(options).value();
}

std::unique_ptr<IBuffer> Advanced() {
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = kRows;
  return AdvancedReplayBuffer::Create(options).value();
}

void NaiveP99WhilePushing(benchmark::State& state) { Draw(state, Naive(), true, 0.99); }
void NaiveP99WhilePushingBaseline(benchmark::State& state) { Draw(state, Naive(), false, 0.5); }
void AdvancedP99WhilePushing(benchmark::State& state) { Draw(state, Advanced(), true, 0.99); }
void AdvancedP99WhilePushingBaseline(benchmark::State& state) {
  Draw(state, Advanced(), false, 0.5);
}

// Sets the number of rounds, since the measured time is not the time that a round takes.
void Rounds(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Iterations(20)->Arg(64)->Arg(4096);
}
BENCHMARK(NaiveP99WhilePushingBaseline)->Apply(Rounds);
BENCHMARK(NaiveP99WhilePushing)->Apply(Rounds);
BENCHMARK(AdvancedP99WhilePushingBaseline)->Apply(Rounds);
BENCHMARK(AdvancedP99WhilePushing)->Apply(Rounds);

}  // namespace
}  // namespace ding
