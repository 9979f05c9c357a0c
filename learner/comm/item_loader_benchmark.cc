// Loading batches of transitions by their items, from chunks that are kept decoded: 800 chunks of
// 128 rows with 4 x float32 observations, rows drawn uniformly.
//
//   Load/rows             ItemLoader, one step
//   LoadThreeSteps/rows   windows of three steps
//   LoadTwoThreads/rows   two threads that share a loader
//   LoadFloor/rows        the same columns gathered from flat arrays
//   BufferSample/rows     NaiveReplayBuffer of as many rows: what a run in one process does
//                         instead, drawing included
//   ReadChunk             a chunk that is not kept: from memory, decoded (128 rows)
#include <algorithm>
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
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/store/mem_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace ding {
namespace {

constexpr int64_t kChunks = 800;
constexpr int64_t kChunkRows = 128;
constexpr int kBatches = 64;

Batch Touched(const SpecPtr& spec, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (int i = 0; i < spec->size(); ++i) {
    // Numbers that are possible: categories and iterations are zeros.
    const int byte = spec->field(i).dtype == DType::kFloat32 ? i + 1 : 0;
    std::memset(builder.view().raw_column(i), byte, static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return std::move(builder).Seal(rows);
}

SpecPtr ObsSpec() { return MakeSpec({Box("obs", {4})}).value(); }

// Eight segments, as of eight envs.
SegmentBatch MakeChunk() {
  SegmentBatch data;
  data.rows =
      Touched(MakeSpec({Box("obs", {4}), Discrete("action", 2), Scalar("reward", DType::kFloat32),
                        Scalar("collect_iter", DType::kInt64)})
                  .value(),
              kChunkRows);
  for (int64_t begin = 0; begin < kChunkRows; begin += 16) {
    data.segments.push_back({begin / 16, 0, begin, 16, SegmentEnd::kCut});
  }
  data.final_obs = Touched(ObsSpec(), static_cast<int64_t>(data.segments.size()));
  return data;
}

Batch DrawnItems(int64_t size, Rng* rng) {
  const SpecPtr spec =
      MakeSpec({Scalar(kColumnChunk, DType::kInt64), Scalar(kColumnRow, DType::kInt64),
                Scalar(kColumnLength, DType::kInt64), Scalar(kColumnCollectIter, DType::kInt64),
                Scalar(kColumnReplayUniqueId, DType::kInt64)})
          .value();
  BatchBuilder builder = BatchBuilder::Create(spec, size).value();
  for (int64_t i = 0; i < size; ++i) {
    builder.column<int64_t>(0)[i] = static_cast<int64_t>(rng->UniformInt(kChunks));
    builder.column<int64_t>(1)[i] = static_cast<int64_t>(rng->UniformInt(kChunkRows));
    builder.column<int64_t>(2)[i] = 1;
    builder.column<int64_t>(3)[i] = 0;
    builder.column<int64_t>(4)[i] = i;
  }
  return std::move(builder).Seal(size);
}

std::vector<Batch> DrawnBatches(int64_t size, int thread) {
  Rng rng(static_cast<uint64_t>(thread), "items");
  std::vector<Batch> batches;
  for (int i = 0; i < kBatches; ++i) batches.push_back(DrawnItems(size, &rng));
  return batches;
}

MemStore* FilledStore() {
  static MemStore* const store = [] {
    auto* const made = new MemStore;
    const EncodedSegments chunk(MakeChunk());
    for (int64_t i = 0; i < kChunks; ++i) {
      DING_CHECK(made->Put(ChunkKey(i), chunk.pieces()).ok());
    }
    return made;
  }();
  return store;
}

// With all chunks in it.
std::unique_ptr<ItemLoader> WarmLoader(int64_t nstep) {
  ItemLoaderOptions options;
  options.nstep = nstep;
  auto loader = ItemLoader::Create(FilledStore(), options).value();
  Rng rng(0, "warm");
  for (int i = 0; i < 100; ++i) {
    DING_CHECK(loader->Load(DrawnItems(256, &rng)).value().missing == 0);
  }
  return loader;
}

void LoadBatches(benchmark::State& state, ItemLoader* loader) {
  const std::vector<Batch> batches = DrawnBatches(state.range(0), state.thread_index());
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(loader->Load(batches[next]).value());
    next = (next + 1) % batches.size();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void Load(benchmark::State& state) { LoadBatches(state, WarmLoader(1).get()); }
void LoadThreeSteps(benchmark::State& state) { LoadBatches(state, WarmLoader(3).get()); }
void LoadTwoThreads(benchmark::State& state) {
  static ItemLoader* const loader = WarmLoader(1).release();
  LoadBatches(state, loader);
}

void LoadFloor(benchmark::State& state) {
  const SegmentBatch chunk = MakeChunk();
  const Batch rows = Touched(chunk.rows.spec_ptr(), kChunks * kChunkRows + 1);
  const SpecPtr obs_spec = ObsSpec();
  const auto size = static_cast<size_t>(state.range(0));
  const BatchBuilder out = BatchBuilder::Create(rows.spec_ptr(), state.range(0)).value();
  const BatchBuilder next_obs = BatchBuilder::Create(obs_spec, state.range(0)).value();
  const std::vector<Batch> batches = DrawnBatches(state.range(0), 0);
  std::vector<int64_t> ids(size);
  std::vector<int64_t> successors(size);
  std::vector<int64_t> unique_ids(size);
  std::vector<float> discount(size);
  std::vector<int32_t> n_step(size);
  size_t next = 0;
  for (auto _ : state) {
    const Batch& items = batches[next];
    const absl::Span<const int64_t> chunks = items.column<int64_t>(0);
    const absl::Span<const int64_t> first = items.column<int64_t>(1);
    for (size_t i = 0; i < size; ++i) {
      ids[i] = chunks[i] * kChunkRows + first[i];
      successors[i] = ids[i] + 1;
    }
    std::copy_n(items.column<int64_t>(4).data(), size, unique_ids.data());
    std::fill(discount.begin(), discount.end(), 0.99f);
    std::fill(n_step.begin(), n_step.end(), 1);
    GatherRows(rows.view(), ids, out.view(), 0);
    GatherRows(rows.view().Fields(obs_spec.get(), 0), successors, next_obs.view(), 0);
    benchmark::ClobberMemory();
    next = (next + 1) % batches.size();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BufferSample(benchmark::State& state) {
  static NaiveReplayBuffer* const buffer = [] {
    NaiveReplayBuffer::Options options;
    options.capacity_rows = kChunks * kChunkRows;
    NaiveReplayBuffer* const made = NaiveReplayBuffer::Create(options).value().release();
    SegmentBatch chunk = MakeChunk();
    for (int64_t i = 0; i < kChunks; ++i) {
      DING_CHECK(made->Push(chunk, 0).ok());
      for (Segment& segment : chunk.segments) segment.first_step += segment.length;
    }
    return made;
  }();
  for (auto _ : state) benchmark::DoNotOptimize(buffer->Sample(state.range(0), 0).value());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void ReadChunk(benchmark::State& state) {
  ItemLoaderOptions options;
  options.cache_bytes = 0;
  const auto loader = ItemLoader::Create(FilledStore(), options).value();
  const std::vector<Batch> batches = DrawnBatches(1, 0);
  size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(loader->Load(batches[next]).value());
    next = (next + 1) % batches.size();
  }
  state.SetItemsProcessed(state.iterations() * kChunkRows);
}

BENCHMARK(LoadFloor)->Arg(64)->Arg(256);
BENCHMARK(Load)->Arg(64)->Arg(256);
BENCHMARK(LoadThreeSteps)->Arg(64)->Arg(256);
BENCHMARK(LoadTwoThreads)->Arg(64)->Threads(2)->UseRealTime();
BENCHMARK(BufferSample)->Arg(64)->Arg(256);
BENCHMARK(ReadChunk);

}  // namespace
}  // namespace ding
