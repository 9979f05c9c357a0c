// Pushing and drawing sequences. The floors are in tools/floors/replay_floors.cc.
// 100,000 rows of 4 x float32 observations of 8 streams, episodes of 200 rows, sequences of 80 rows
// of which each shares 40 with the next.
//
//   PushSegments         8 segments of 8 rows, buffer full
//   SampleSequences/B    uniform draw of B sequences with next_obs
//   ...Across            the same with cross_episodes
//   CycleByPriority/B    with priorities spread over e^6: a draw of B sequences, and Update with
//                        new ones
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/selection/importance_weights.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"

namespace ding {
namespace {

constexpr int64_t kRows = 100000;
constexpr int64_t kStreams = 8;
constexpr int64_t kSegmentRows = 8;
constexpr int64_t kEpisodeRows = 200;
constexpr int64_t kUnrollLen = 80;
constexpr float kAlpha = 0.6f;
constexpr float kBeta = 0.4f;
// Batches of new priorities, made beforehand: making them is the learner's work.
constexpr size_t kPriorityBatches = 64;

SpecPtr ObsSpec() { return MakeSpec({Box("obs", {4})}).value(); }
SpecPtr RowSpec() {
  return MakeSpec({Box("obs", {4}), Discrete("action", 2), Scalar("reward", DType::kFloat32),
                   Scalar("collect_iter", DType::kInt64)})
      .value();
}

Batch Zeros(const SpecPtr& spec, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(builder.view().raw_column(i), 0, static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return std::move(builder).Seal(rows);
}

// The first rows of all streams.
SegmentBatch FirstPush() {
  SegmentBatch data;
  data.rows = Zeros(RowSpec(), kStreams * kSegmentRows);
  data.final_obs = Zeros(ObsSpec(), kStreams);
  for (int64_t stream = 0; stream < kStreams; ++stream) {
    data.segments.push_back({stream, 0, stream * kSegmentRows, kSegmentRows, SegmentEnd::kCut});
  }
  return data;
}

// To the rows after them.
void Advance(SegmentBatch* data) {
  for (Segment& segment : data->segments) {
    segment.first_step += segment.length;
    const bool last = (segment.first_step + segment.length) % kEpisodeRows == 0;
    segment.end = last ? SegmentEnd::kTerminated : SegmentEnd::kCut;
  }
}

// A full buffer, and what is pushed next.
struct Full {
  std::unique_ptr<SequenceReplayBuffer> buffer;
  SegmentBatch next = FirstPush();

  explicit Full(bool cross_episodes, bool by_priority = false) {
    SequenceReplayBuffer::Options options;
    if (by_priority) options.priority = PriorityOptions{kAlpha, kBeta, /*anneal_step=*/0};
    options.cross_episodes = cross_episodes;
    options.capacity_rows = kRows;
    options.unroll_len = kUnrollLen;
    options.overlap = kUnrollLen / 2;
    buffer = SequenceReplayBuffer::Create(options).value();
    for (int64_t rows = 0; rows < 2 * kRows; rows += next.size()) Push();
  }
  void Push() {
    DING_CHECK(buffer->Push(next, 0).ok());
    Advance(&next);
  }
};

void Push(benchmark::State& state, bool cross_episodes, bool by_priority = false) {
  Full full(cross_episodes, by_priority);
  for (auto _ : state) full.Push();
  state.SetItemsProcessed(state.iterations() * full.next.size());
}
void PushSegments(benchmark::State& state) { Push(state, false); }
void PushSegmentsAcross(benchmark::State& state) { Push(state, true); }
void PushSegmentsByPriority(benchmark::State& state) { Push(state, false, /*by_priority=*/true); }

void Sample(benchmark::State& state, bool cross_episodes) {
  const Full full(cross_episodes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(full.buffer->Sample(state.range(0), 0).value());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * kUnrollLen);
}
void SampleSequences(benchmark::State& state) { Sample(state, false); }
void SampleSequencesAcross(benchmark::State& state) { Sample(state, true); }

std::vector<std::vector<float>> NewPriorities(int64_t size) {
  Rng rng(2, "priorities");
  std::vector<std::vector<float>> batches(kPriorityBatches);
  for (std::vector<float>& batch : batches) {
    for (int64_t i = 0; i < size; ++i) {
      batch.push_back(static_cast<float>(std::exp(rng.Uniform(-6, 0))));
    }
  }
  return batches;
}

void CycleByPriority(benchmark::State& state) {
  const Full full(/*cross_episodes=*/false, /*by_priority=*/true);
  const std::vector<std::vector<float>> priorities = NewPriorities(state.range(0));
  PriorityInfo info;
  size_t next = 0;
  for (auto _ : state) {
    const Batch batch = full.buffer->Sample(state.range(0), 0).value();
    const auto ids = batch.column<int64_t>("replay_unique_id");
    const auto slots = batch.column<int64_t>("replay_buffer_idx");
    info.priority = priorities[next++ % kPriorityBatches];
    info.replay_unique_id.clear();
    info.replay_buffer_idx.clear();
    for (size_t row = 0; row < ids.size(); row += kUnrollLen) {
      info.replay_unique_id.push_back(ids[row]);
      info.replay_buffer_idx.push_back(slots[row]);
    }
    DING_CHECK(full.buffer->Update(info).ok());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0) * kUnrollLen);
}

BENCHMARK(PushSegments);
BENCHMARK(PushSegmentsAcross);
BENCHMARK(SampleSequences)->Arg(16)->Arg(64);
BENCHMARK(SampleSequencesAcross)->Arg(16)->Arg(64);
BENCHMARK(PushSegmentsByPriority);
BENCHMARK(CycleByPriority)->Arg(16)->Arg(64);

}  // namespace
}  // namespace ding
