// Pushing and drawing at memory speed. The floors are in tools/floors/replay_floors.cc.
//
//   Push/rows            one segment of that many rows, 4 x float32 observations, buffer full
//   PushEightStreams     8 segments of 8 rows
//   PushOneRowSegments   8 streams, a row each: what 8 envs and n_sample 8 produce
//   ...Counted           the same with statistics (to a NullSink)
//   Sample/buffer/rows   uniform draw with next_obs from a buffer of that many rows
//   SampleImages/rows    the same with 84 x 84 x 4 uint8, 10,000 rows
//   SampleImagesOnDisk/rows   the same; the rows lie in files in $TMPDIR
//   PushStacks/rows      one segment of stacks of four 84 x 84 frames, to the RowStore alone, which
//                        says how many bytes it takes per row (bytes_per_row, 10,000 rows)
//   SampleStacks/rows    uniform draw of such rows, whose frames are stored once; also by two
//                        threads
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/storage/row_files.h"
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
                                              std::shared_ptr<MetricSink> metrics = nullptr,
                                              std::shared_ptr<RowFiles> files = nullptr) {
  NaiveReplayBuffer::Options options;
  options.files = std::move(files);
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

void Push(benchmark::State& state) { PushRows(state, state.range(0), state.range(0)); }
void PushEightStreams(benchmark::State& state) { PushRows(state, 64, 8); }
void PushCounted(benchmark::State& state) {
  PushRows(state, state.range(0), state.range(0), std::make_shared<NullSink>());
}
void PushOneRowSegments(benchmark::State& state) { PushRows(state, 8, 1); }
void PushOneRowSegmentsCounted(benchmark::State& state) {
  PushRows(state, 8, 1, std::make_shared<NullSink>());
}

void SampleRows(benchmark::State& state, const FieldSpec& obs, int64_t capacity_rows, int64_t rows,
                std::shared_ptr<MetricSink> metrics = nullptr,
                std::shared_ptr<RowFiles> files = nullptr) {
  const auto buffer = MakeBuffer(capacity_rows, std::move(metrics), std::move(files));
  Fill(buffer.get(), obs, capacity_rows);
  for (auto _ : state) benchmark::DoNotOptimize(buffer->Sample(rows, 0).value());
  state.SetItemsProcessed(state.iterations() * rows);
}

void Sample(benchmark::State& state) {
  SampleRows(state, Box("obs", {4}), state.range(0), state.range(1));
}
void SampleCounted(benchmark::State& state) {
  SampleRows(state, Box("obs", {4}), kRows, state.range(0), std::make_shared<NullSink>());
}
void SampleImages(benchmark::State& state) {
  SampleRows(state, Image(), kImageRows, state.range(0));
}
void SampleImagesOnDisk(benchmark::State& state) {
  const char* const folder = std::getenv("TMPDIR");
  auto files = RowFiles::Open(JoinPath(folder == nullptr ? "/tmp" : folder, "sample_images"));
  SampleRows(state, Image(), kImageRows, state.range(0), /*metrics=*/nullptr, files.value());
}

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
}

BENCHMARK(Push)->Arg(64)->Arg(4096);
BENCHMARK(PushCounted)->Arg(64);
BENCHMARK(PushEightStreams);
BENCHMARK(PushOneRowSegments);
BENCHMARK(PushOneRowSegmentsCounted);
BENCHMARK(Sample)->ArgsProduct({{10000, kRows, 1000000, 10000000}, {64, 256}});
BENCHMARK(SampleCounted)->Arg(64);
BENCHMARK(SampleImages)->Arg(64);
BENCHMARK(SampleImagesOnDisk)->Arg(64);
BENCHMARK(PushStacks)->Arg(64);
BENCHMARK(SampleStacks)->Arg(64);
BENCHMARK(SampleStacks)->Arg(64)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace ding
