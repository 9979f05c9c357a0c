// Prioritized replay at memory speed: AdvancedReplayBuffer beside the same work by hand.
//
//   Cycle/capacity/rows       Sample, and Update with new priorities of what was drawn; full
//                             buffer, 4 x float32 observations, priorities spread over e^6
//   CycleFloor/capacity/rows  the bare tree: stratified points, searches, p^alpha, changes; and the
//                             columns gathered from flat arrays by hand
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

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/selection/priority_tree.h"

namespace ding {
namespace {

constexpr float kAlpha = 0.6f;
constexpr float kBeta = 0.4f;

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

void CycleFloor(benchmark::State& state) {
  const int64_t capacity = state.range(0);
  const auto size = static_cast<size_t>(state.range(1));
  const std::unique_ptr<PriorityTree> tree = PriorityTree::Create(capacity).value();
  Rng rng(1, "fill");
  std::vector<float> weights(static_cast<size_t>(capacity));
  for (float& weight : weights) weight = std::pow(RandomPriority(&rng), kAlpha);
  tree->Assign(0, weights);
  const std::vector<std::vector<float>> priorities = NewPriorities(state.range(1));
  const Batch rows = Touched(RowSpec(), capacity + 1);
  const SpecPtr obs_spec = ObsSpec();
  std::byte* columns[] = {const_cast<std::byte*>(rows.view().raw_column(0))};
  const ColumnsView obs(obs_spec.get(), columns, 0, capacity + 1);
  const BatchBuilder out = BatchBuilder::Create(rows.spec_ptr(), state.range(1)).value();
  const BatchBuilder next_obs = BatchBuilder::Create(obs_spec, state.range(1)).value();
  std::vector<double> points(size);
  std::vector<int64_t> leaves(size);
  std::vector<int64_t> successors(size);
  std::vector<float> is_weight(size);
  weights.resize(size);
  size_t next = 0;
  for (auto _ : state) {
    const double stratum = tree->total() / static_cast<double>(size);
    for (size_t i = 0; i < size; ++i) {
      points[i] = (static_cast<double>(i) + rng.Uniform()) * stratum;
    }
    tree->Find(absl::MakeSpan(points), absl::MakeSpan(leaves));
    for (size_t i = 0; i < size; ++i) {
      is_weight[i] = std::pow(tree->min_weight() / tree->weight(leaves[i]), kBeta);
      successors[i] = leaves[i] + 1;
    }
    GatherRows(rows.view(), leaves, out.view(), 0);
    GatherRows(obs, successors, next_obs.view(), 0);
    const std::vector<float>& fresh = priorities[next++ % kPriorityBatches];
    for (size_t i = 0; i < size; ++i) weights[i] = std::pow(fresh[i] + 1e-5f, kAlpha);
    tree->Set(leaves, weights);
    benchmark::ClobberMemory();
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

BENCHMARK(CycleFloor)->Args({kSmall, 64})->Args({kSmall, 256});
BENCHMARK(Cycle)->Args({kSmall, 64})->Args({kSmall, 256});
BENCHMARK(Sample)->Args({kSmall, 64});
BENCHMARK(SampleMeasured)->Args({kSmall, 64});
BENCHMARK(PushOneRowSegments)->Arg(kSmall);
BENCHMARK(PushOneRowSegmentsMeasured)->Arg(kSmall);
BENCHMARK(CycleFloor)->Args({kLarge, 256});
BENCHMARK(Cycle)->Args({kLarge, 256});

}  // namespace
}  // namespace ding
