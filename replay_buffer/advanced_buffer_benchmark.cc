// Prioritized replay at memory speed. The floors are in tools/floors/replay_floors.cc.
//
//   Cycle/capacity/rows       Sample, and Update with new priorities of what was drawn; full
//                             buffer, 4 x float32 observations, priorities spread over e^6
//   Sample/capacity/rows      without the update
//   PushOneRowSegments/cap    8 streams, a row each, into a full buffer
//   ...Measured               the same with statistics (to a NullSink)
#include <array>
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
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"

namespace ding {
namespace {

// Batches of new priorities, made beforehand: making them is the learner's work.
constexpr size_t kPriorityBatches = 64;

SpecPtr RowSpec() {
  return MakeSpec({Box("obs", {4}), Discrete("action", 2), Scalar("reward", DType::kFloat32),
                   Scalar("collect_iter", DType::kInt64)})
      .value();
}
SpecPtr ObsSpec() { return MakeSpec({Box("obs", {4})}).value(); }

Batch Touched(const SpecPtr& spec, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(builder.view().raw_column(i), i + 1,
                static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return std::move(builder).Seal(rows);
}

SegmentBatch MakePush(int64_t rows, int64_t length) {
  SegmentBatch data;
  data.rows = Touched(RowSpec(), rows);
  for (int64_t begin = 0; begin < rows; begin += length) {
    data.segments.push_back({begin / length, 0, begin, length, SegmentEnd::kCut});
  }
  data.final_obs = Touched(ObsSpec(), static_cast<int64_t>(data.segments.size()));
  return data;
}

float RandomPriority(Rng* rng) { return static_cast<float>(std::exp(rng->Uniform(-6, 0))); }

std::vector<std::vector<float>> NewPriorities(int64_t size) {
  Rng rng(2, "priorities");
  std::vector<std::vector<float>> batches(kPriorityBatches);
  for (std::vector<float>& batch : batches) {
    for (int64_t i = 0; i < size; ++i) batch.push_back(RandomPriority(&rng));
  }
  return batches;
}

// Full, every row with a priority of its own. The last one of each sort, measured or not, is kept.
AdvancedReplayBuffer* FullBuffer(int64_t capacity, bool measured = false) {
  struct Kept {
    int64_t capacity = 0;
    std::unique_ptr<AdvancedReplayBuffer> buffer;
  };
  static auto* const kept_buffers = new std::array<Kept, 2>();
  Kept& kept_buffer = (*kept_buffers)[measured ? 1 : 0];
  std::unique_ptr<AdvancedReplayBuffer>* const kept = &kept_buffer.buffer;
  if (kept_buffer.capacity == capacity) return kept->get();
  kept->reset();
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = capacity;
  if (measured) options.metrics = std::make_shared<NullSink>();
  *kept = AdvancedReplayBuffer::Create(options).value();
  kept_buffer.capacity = capacity;
  constexpr int64_t kPiece = 1000;
  SegmentBatch push = MakePush(kPiece, kPiece);
  Rng rng(1, "fill");
  PriorityInfo info;
  for (int64_t first = 0; first < capacity; first += kPiece) {
    DING_CHECK((*kept)->Push(push, first).ok());
    push.segments[0].first_step += kPiece;
    info = {};
    for (int64_t id = first; id < first + kPiece; ++id) {
      info.priority.push_back(RandomPriority(&rng));
      info.replay_unique_id.push_back(id);
      info.replay_buffer_idx.push_back(id);
    }
    DING_CHECK((*kept)->Update(info).ok());
  }
  return kept->get();
}

void SampleFrom(benchmark::State& state, AdvancedReplayBuffer* buffer) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(buffer->Sample(state.range(1), 0).value());
  }
  state.SetItemsProcessed(state.iterations() * state.range(1));
}

void Sample(benchmark::State& state) { SampleFrom(state, FullBuffer(state.range(0))); }
void SampleMeasured(benchmark::State& state) {
  SampleFrom(state, FullBuffer(state.range(0), /*measured=*/true));
}

void Cycle(benchmark::State& state) {
  AdvancedReplayBuffer* const buffer = FullBuffer(state.range(0));
  const std::vector<std::vector<float>> priorities = NewPriorities(state.range(1));
  PriorityInfo info;
  size_t next = 0;
  for (auto _ : state) {
    const Batch batch = buffer->Sample(state.range(1), 0).value();
    const auto ids = batch.column<int64_t>("replay_unique_id");
    const auto slots = batch.column<int64_t>("replay_buffer_idx");
    info.priority = priorities[next++ % kPriorityBatches];
    info.replay_unique_id.assign(ids.begin(), ids.end());
    info.replay_buffer_idx.assign(slots.begin(), slots.end());
    DING_CHECK(buffer->Update(info).ok());
  }
  state.SetItemsProcessed(state.iterations() * state.range(1));
}

void PushInto(benchmark::State& state, AdvancedReplayBuffer* buffer) {
  SegmentBatch push = MakePush(8, 1);
  for (auto _ : state) {
    DING_CHECK(buffer->Push(push, 0).ok());
    for (Segment& segment : push.segments) ++segment.first_step;
  }
  state.SetItemsProcessed(state.iterations() * 8);
}

void PushOneRowSegments(benchmark::State& state) { PushInto(state, FullBuffer(state.range(0))); }
void PushOneRowSegmentsMeasured(benchmark::State& state) {
  PushInto(state, FullBuffer(state.range(0), /*measured=*/true));
}

constexpr int64_t kSmall = 100000;
constexpr int64_t kLarge = 10000000;

BENCHMARK(Cycle)->ArgsProduct({{10000, kSmall, 1000000}, {64, 256}});
BENCHMARK(Sample)->Args({kSmall, 64});
BENCHMARK(SampleMeasured)->Args({kSmall, 64});
BENCHMARK(PushOneRowSegments)->Arg(kSmall);
BENCHMARK(PushOneRowSegmentsMeasured)->Arg(kSmall);
BENCHMARK(Cycle)->Args({kLarge, 64})->Args({kLarge, 256});

}  // namespace
}  // namespace ding
