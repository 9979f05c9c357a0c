// Pushing and drawing at memory speed: NaiveReplayBuffer beside the same work as bare loops.
//
//   Push/rows            one segment of that many rows, 4 x float32 observations, buffer full
//   PushOneRowSegments   8 streams, a row each: what 8 envs and n_sample 8 produce
//   ...Counted           the same with statistics (to a NullSink)
//   PushFloor/rows       memcpy of the same columns into a ring
//   Sample/rows          uniform draw with next_obs, 100,000 rows
//   SampleFloor/rows     the same random numbers, the same columns gathered from flat arrays
//   SampleImages/rows    the same with 84 x 84 x 4 uint8, 10,000 rows
//   SampleImagesFloor    gather of images into a reused block
//   PushStacks/rows      one segment of stacks of four 84 x 84 frames, to the RowStore alone, which
//                        says how many bytes it takes per row (bytes_per_row, 10,000 rows)
//   PushStacksFloor      memcpy of the newest frames into a ring, and of the final observation
//   SampleStacks/rows    uniform draw of such rows, whose frames are stored once
//   SampleStacksFloor    gather of the same frames from a flat array into a reused block
//                        Both also by two threads that share the rows.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {
namespace {

constexpr int64_t kRows = 100000;
constexpr int64_t kImageRows = 10000;

FieldSpec Image() {
  FieldSpec field = Scalar("obs", DType::kUint8);
  field.shape = {4, 84, 84};
  return field;
}

SpecPtr RowsOf(const FieldSpec& obs) {
  return MakeSpec({obs, Discrete("action", 2), Scalar("reward", DType::kFloat32),
                   Scalar("collect_iter", DType::kInt64)})
      .value();
}

// A block whose bytes are all touched.
Batch Touched(const SpecPtr& spec, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (int i = 0; i < spec->size(); ++i) {
    std::memset(builder.view().raw_column(i), i + 1,
                static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return std::move(builder).Seal(rows);
}

// `rows` rows as segments of `length` rows, a stream each.
SegmentBatch MakePush(const FieldSpec& obs, int64_t rows, int64_t length) {
  SegmentBatch data;
  data.rows = Touched(RowsOf(obs), rows);
  for (int64_t begin = 0; begin < rows; begin += length) {
    data.segments.push_back({begin / length, 0, begin, length, SegmentEnd::kCut});
  }
  data.final_obs = Touched(MakeSpec({obs}).value(), static_cast<int64_t>(data.segments.size()));
  return data;
}

constexpr int64_t kFrameBytes = 84 * 84;
constexpr int kFrames = 4;

// One segment of `rows` rows that stack the last frames of their stream. It goes on with itself:
// frames come again after `rows` steps.
SegmentBatch MakeStacks(int64_t rows) {
  FieldSpec obs = Image();
  obs.frame_stack_axis = 0;
  SegmentBatch data = MakePush(obs, rows, rows);
  const auto fill = [rows](const ColumnsView& view, int64_t row, int64_t step) {
    std::byte* const stack =
        const_cast<std::byte*>(view.raw_column(0)) + row * kFrames * kFrameBytes;
    for (int64_t i = 0; i < kFrames; ++i) {
      std::memset(stack + i * kFrameBytes, static_cast<int>((step + i) % rows), kFrameBytes);
    }
  };
  for (int64_t row = 0; row < rows; ++row) fill(data.rows.view(), row, row);
  fill(data.final_obs.view(), 0, rows);
  return data;
}

// The segments' streams go on.
void Advance(SegmentBatch* data) {
  for (Segment& segment : data->segments) segment.first_step += segment.length;
}

std::unique_ptr<NaiveReplayBuffer> MakeBuffer(int64_t capacity_rows,
                                              std::shared_ptr<MetricSink> metrics = nullptr) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = capacity_rows;
  options.metrics = std::move(metrics);
  return NaiveReplayBuffer::Create(options).value();
}

void Fill(NaiveReplayBuffer* buffer, SegmentBatch push, int64_t rows) {
  for (int64_t i = 0; i < rows; i += push.size(), Advance(&push)) {
    DING_CHECK(buffer->Push(push, i).ok());
  }
}

void Fill(NaiveReplayBuffer* buffer, const FieldSpec& obs, int64_t rows) {
  Fill(buffer, MakePush(obs, 100, 100), rows);
}

void PushRows(benchmark::State& state, int64_t rows, int64_t length,
              std::shared_ptr<MetricSink> metrics = nullptr) {
  const auto buffer = MakeBuffer(kRows, std::move(metrics));
  Fill(buffer.get(), Box("obs", {4}), kRows);
  SegmentBatch push = MakePush(Box("obs", {4}), rows, length);
  for (auto _ : state) {
    DING_CHECK(buffer->Push(push, 0).ok());
    Advance(&push);
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

void Push(benchmark::State& state) {
  PushRows(state, state.range(0), state.range(0));
  // 30 million rows a second; a large push in one and a half times its memcpy.
  state.SetLabel(state.range(0) == 64 ? "reach=2133ns" : "reach=1.5");
}
void PushCounted(benchmark::State& state) {
  PushRows(state, state.range(0), state.range(0), std::make_shared<NullSink>());
}
void PushOneRowSegments(benchmark::State& state) { PushRows(state, 8, 1); }
void PushOneRowSegmentsCounted(benchmark::State& state) {
  PushRows(state, 8, 1, std::make_shared<NullSink>());
}

void PushFloor(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const Batch push = Touched(RowsOf(Box("obs", {4})), rows);
  const int64_t ring_rows = kRows / rows * rows;
  const BatchBuilder ring = BatchBuilder::Create(push.spec_ptr(), ring_rows).value();
  int64_t at = 0;
  for (auto _ : state) {
    CopyRows(push.view(), ring.view(), at);
    at = at + rows == ring_rows ? 0 : at + rows;
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

void SampleRows(benchmark::State& state, const FieldSpec& obs, int64_t capacity_rows,
                std::shared_ptr<MetricSink> metrics = nullptr) {
  const auto buffer = MakeBuffer(capacity_rows, std::move(metrics));
  Fill(buffer.get(), obs, capacity_rows);
  for (auto _ : state) {
    benchmark::DoNotOptimize(buffer->Sample(state.range(0), 0).value());
  }
}

// Columns of a batch in flat arrays: next_obs is the observation of the row after.
void SampleRowsFloor(benchmark::State& state, const FieldSpec& obs, int64_t capacity_rows) {
  const Batch rows = Touched(RowsOf(obs), capacity_rows + 1);
  const SpecPtr obs_spec = MakeSpec({obs}).value();
  const auto size = static_cast<size_t>(state.range(0));
  const BatchBuilder out = BatchBuilder::Create(rows.spec_ptr(), state.range(0)).value();
  const BatchBuilder next_obs = BatchBuilder::Create(obs_spec, state.range(0)).value();
  std::vector<int64_t> ids(size);
  std::vector<int64_t> successors(size);
  std::vector<float> discount(size);
  std::vector<int32_t> n_step(size);
  UniformDraw draw;
  Rng rng(0, "floor");
  std::byte* columns[] = {const_cast<std::byte*>(rows.view().raw_column(0))};
  const ColumnsView obs_view(obs_spec.get(), columns, 0, capacity_rows + 1);
  for (auto _ : state) {
    draw.WithoutReplacement(capacity_rows, &rng, absl::MakeSpan(ids));
    for (size_t i = 0; i < size; ++i) successors[i] = ids[i] + 1;
    std::fill(discount.begin(), discount.end(), 0.99f);
    std::fill(n_step.begin(), n_step.end(), 1);
    GatherRows(rows.view(), ids, out.view(), 0);
    GatherRows(obs_view, successors, next_obs.view(), 0);
    benchmark::ClobberMemory();
  }
}

void Sample(benchmark::State& state) { SampleRows(state, Box("obs", {4}), kRows); }
void SampleCounted(benchmark::State& state) {
  SampleRows(state, Box("obs", {4}), kRows, std::make_shared<NullSink>());
}
void SampleFloor(benchmark::State& state) { SampleRowsFloor(state, Box("obs", {4}), kRows); }
void SampleImages(benchmark::State& state) { SampleRows(state, Image(), kImageRows); }
void SampleImagesFloor(benchmark::State& state) { SampleRowsFloor(state, Image(), kImageRows); }

void PushStacks(benchmark::State& state) {
  SegmentBatch push = MakeStacks(state.range(0));
  const auto store = RowStore::Create(push.rows.spec_ptr(), 1, {kImageRows}).value();
  const auto append = [&push, &store] {
    DING_CHECK(store->Append(push).ok());
    Advance(&push);
  };
  while (store->size() < kImageRows) append();
  for (auto _ : state) append();
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bytes_per_row"] =
      static_cast<double>(store->allocated_bytes()) / static_cast<double>(store->size());
}

void PushStacksFloor(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const SegmentBatch push = MakeStacks(rows);
  const std::byte* const stacks = push.rows.view().raw_column(0);
  std::vector<std::byte> ring(static_cast<size_t>(kImageRows * kFrameBytes));
  std::vector<std::byte> final_obs(kFrames * kFrameBytes);
  int64_t at = 0;
  for (auto _ : state) {
    for (int64_t row = 0; row < rows; ++row, at = at + 1 == kImageRows ? 0 : at + 1) {
      std::memcpy(&ring[at * kFrameBytes], stacks + (kFrames * row + kFrames - 1) * kFrameBytes,
                  kFrameBytes);
    }
    std::memcpy(final_obs.data(), push.final_obs.view().raw_column(0), final_obs.size());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * rows);
  state.counters["bytes_per_row"] = kFrameBytes;
}

void SampleStacks(benchmark::State& state) {
  static NaiveReplayBuffer* const buffer = [] {
    NaiveReplayBuffer* const made = MakeBuffer(kImageRows).release();
    Fill(made, MakeStacks(100), kImageRows);
    return made;
  }();
  for (auto _ : state) {
    benchmark::DoNotOptimize(buffer->Sample(state.range(0), 0).value());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetLabel("reach=1.18");
}

void SampleStacksFloor(benchmark::State& state) {
  static const auto* const frames =
      new std::vector<std::byte>((kImageRows + kFrames) * kFrameBytes);
  static const auto* const columns =
      new Batch(Touched(MakeSpec({Discrete("action", 2), Scalar("reward", DType::kFloat32),
                                  Scalar("collect_iter", DType::kInt64)})
                            .value(),
                        kImageRows));
  const auto size = static_cast<size_t>(state.range(0));
  const BatchBuilder out = BatchBuilder::Create(columns->spec_ptr(), state.range(0)).value();
  std::vector<std::byte> stacks(2 * size * kFrames * kFrameBytes);
  std::vector<int64_t> ids(size);
  UniformDraw draw;
  Rng rng(static_cast<uint64_t>(state.thread_index()), "floor");
  for (auto _ : state) {
    draw.WithoutReplacement(kImageRows, &rng, absl::MakeSpan(ids));
    GatherRows(columns->view(), ids, out.view(), 0);
    std::byte* to = stacks.data();
    for (const int64_t first : {0, 1}) {
      for (const int64_t id : ids) {
        for (int64_t i = 0; i < kFrames; ++i, to += kFrameBytes) {
          std::memcpy(to, &(*frames)[(id + first + i) * kFrameBytes], kFrameBytes);
        }
      }
    }
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(PushFloor)->Arg(64)->Arg(4096);
BENCHMARK(Push)->Arg(64)->Arg(4096);
BENCHMARK(PushCounted)->Arg(64);
BENCHMARK(PushOneRowSegments);
BENCHMARK(PushOneRowSegmentsCounted);
BENCHMARK(SampleFloor)->Arg(64)->Arg(256);
BENCHMARK(Sample)->Arg(64)->Arg(256);
BENCHMARK(SampleCounted)->Arg(64);
BENCHMARK(SampleImagesFloor)->Arg(64);
BENCHMARK(SampleImages)->Arg(64);
BENCHMARK(PushStacksFloor)->Arg(64);
BENCHMARK(PushStacks)->Arg(64);
BENCHMARK(SampleStacksFloor)->Arg(64);
BENCHMARK(SampleStacks)->Arg(64);
BENCHMARK(SampleStacksFloor)->Arg(64)->Threads(2)->UseRealTime();
BENCHMARK(SampleStacks)->Arg(64)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace ding
