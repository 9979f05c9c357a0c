#include "ding_worker/replay_buffer/testing/buffer_conformance.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/testing/reference_buffer.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;

SampleOptions WithReplacement() {
  SampleOptions options;
  options.replace = true;
  return options;
}

SampleOptions Newest(int64_t rows, bool replace = false) {
  SampleOptions options;
  options.newest = rows;
  options.replace = replace;
  return options;
}

SampleOptions Range(int64_t begin, std::optional<int64_t> end, bool replace = false) {
  SampleOptions options;
  options.range = AgeRange{begin, end};
  options.replace = replace;
  return options;
}

TEST_P(BufferConformance, IsMadeUsedAndDestroyed) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 8}}), 8), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 1));
  EXPECT_EQ(batch.rows(), 4);
  EXPECT_THAT(buffer->Update({}), IsOk());
  buffer->Clear();
  buffer->Clear();
  EXPECT_EQ(buffer->count(), 0);
}

TEST_P(BufferConformance, CountsStoredAndPushedRows) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  for (int i = 0; i < 100; ++i) EXPECT_THAT(buffer->Push(streams.Make({{0, 1}}), i), IsOk());
  EXPECT_EQ(buffer->count(), 64);
  EXPECT_EQ(buffer->push_count(), 100);
  EXPECT_THAT(buffer->Push(SegmentBatch{}, 100), IsOk());
  EXPECT_EQ(buffer->push_count(), 100);
  buffer->Clear();
  EXPECT_EQ(buffer->count(), 0);
  EXPECT_EQ(buffer->push_count(), 0);
  EXPECT_THAT(buffer->Push(streams.Make({{0, 38}}), 138), IsOk());
  EXPECT_EQ(buffer->count(), 38);
  EXPECT_EQ(buffer->push_count(), 38);
}

TEST_P(BufferConformance, IdsGoOnOverClear) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 10}}), 10), IsOk());
  buffer->Clear();
  EXPECT_THAT(buffer->Push(streams.Make({{0, 1}}), 11), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_EQ(batch.column<int64_t>("replay_unique_id")[0], 10);
}

TEST_P(BufferConformance, AnEmptyBufferRefusesToDraw) {
  const std::unique_ptr<IBuffer> buffer = Make();
  EXPECT_THAT(buffer->Sample(1, 0), IsFailedPrecondition());
  EXPECT_THAT(buffer->Sample(1, 0, WithReplacement()), IsFailedPrecondition("the buffer holds 0"));
}

TEST_P(BufferConformance, RefusedDrawsSayWhyAndChangeNothing) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 10}}), 10), IsOk());
  const TensorMap before = Saved(*buffer);
  EXPECT_THAT(buffer->Sample(0, 0), IsInvalid("size is 0"));
  EXPECT_THAT(buffer->Sample(-5, 0), IsInvalid("size is -5"));
  EXPECT_THAT(buffer->Sample(1, 0, Newest(0)), IsInvalid("newest 0"));
  EXPECT_THAT(buffer->Sample(11, 0), IsFailedPrecondition("cannot draw 11 ", "holds 10"));
  EXPECT_THAT(buffer->Sample(4, 0, Newest(3)),
              IsFailedPrecondition("cannot draw 4 ", "from the newest 3"));
  for (const SampleOptions& empty : {Range(5, 5), Range(7, 2), Range(-2, -2), Range(-3, 0)}) {
    EXPECT_THAT(buffer->Sample(1, 0, empty), IsInvalid("which is always empty"));
  }
  EXPECT_THAT(buffer->Sample(4, 0, Range(7, 20)),
              IsFailedPrecondition("cannot draw 4 ",
                                   "from range [7, 20), which has 3: the buffer holds 10"));
  for (const SampleOptions& nothing : {Range(10, std::nullopt, true), Range(-20, -10, true),
                                       Range(6, -4, true), Range(-4, 6, true)}) {
    EXPECT_THAT(buffer->Sample(1, 0, nothing), IsFailedPrecondition("which has 0"));
  }
  EXPECT_THAT(buffer->Sample(int64_t{1} << 60, 0, WithReplacement()), IsResourceExhausted());
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

TEST_P(BufferConformance, RefusedPushesSayWhyAndChangeNothing) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 10}, {1, 3}}), 10), IsOk());
  const TensorMap before = Saved(*buffer);

  SegmentBatch gap = streams.Make({{0, 4}});
  gap.segments[0].begin = 1;
  EXPECT_THAT(buffer->Push(gap, 14), IsInvalid("segment 0 of stream 0 covers"));

  std::vector<FieldSpec> fields(TestStreams::RowSpec()->fields().begin(),
                                TestStreams::RowSpec()->fields().end());
  fields[3].dtype = DType::kFloat64;
  SegmentBatch other = streams.Make({{0, 1}});
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr spec, MakeSpec(fields));
  DING_ASSERT_OK_AND_ASSIGN(BatchBuilder rows, BatchBuilder::Create(spec, 1));
  other.rows = std::move(rows).Seal(1);
  EXPECT_THAT(buffer->Push(other, 14),
              IsInvalid("field 'reward' is float64[], expected float32[]"));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

TEST_P(BufferConformance, NewestGoesByAgeAlsoAfterTheRingHasWrapped) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  for (int i = 0; i < 33; ++i) {
    EXPECT_THAT(buffer->Push(streams.Make({{0, 1}, {1, 2}}), 0), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Batch last, buffer->Sample(1, 0, Newest(1)));
    EXPECT_EQ(last.column<int64_t>("replay_unique_id")[0], 3 * i + 2);
  }
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(500, 0, Newest(10, true)));
  const absl::Span<const int64_t> ids = batch.column<int64_t>("replay_unique_id");
  EXPECT_THAT(ids, Each(AllOf(testing::Ge(89), testing::Le(98))));
  EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), 10);  // Missed by 1e-22.
}

TEST_P(BufferConformance, APartLargerThanTheBufferIsTheBuffer) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 5}}), 0), IsOk());
  EXPECT_THAT(buffer->Sample(5, 0, Newest(1000)), IsOk());
}

TEST_P(BufferConformance, ADrawnBatchNeverChanges) {
  for (const bool stacks : {false, true}) {
    SCOPED_TRACE(absl::StrCat("stacks ", stacks));
    const std::unique_ptr<IBuffer> buffer = Make();
    TestStreams streams(0, stacks);
    EXPECT_THAT(buffer->Push(streams.Make({{0, 64}}), 0), IsOk());
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(32, 0));
    const int obs = batch.spec().Find("obs/place").value();
    const Tensor before = batch.tensor(obs).Clone();
    for (int i = 0; i < 10; ++i) {
      EXPECT_THAT(buffer->Push(streams.Make({{0, 64}}), 0), IsOk());
      EXPECT_THAT(buffer->Sample(32, 0), IsOk());
    }
    EXPECT_TRUE(BitwiseEqual(before, batch.tensor(obs)));
  }
}

TEST_P(BufferConformance, RandomOperationsAgreeWithTheReference) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed, "conformance");
    BufferSettings settings;
    settings.capacity_rows = static_cast<int64_t>(1 + rng.UniformInt(seed % 2 == 0 ? 200 : 20));
    settings.nstep = static_cast<int64_t>(1 + rng.UniformInt(2) * rng.UniformInt(5));
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", capacity ", settings.capacity_rows, ", nstep ",
                              settings.nstep));
    // One row each, short, or longer than the buffer.
    const int64_t max_length =
        std::vector<int64_t>{1, 7, settings.capacity_rows + 5}[rng.UniformInt(3)];
    std::unique_ptr<IBuffer> buffer = Make(settings);
    ReferenceBuffer reference(settings.capacity_rows, settings.nstep, settings.gamma);
    TestStreams streams(static_cast<int64_t>(rng.UniformInt(3)), seed % 3 != 0);
    for (int step = 0; step < 120; ++step) {
      const uint64_t what = rng.UniformInt(40);
      if (what < 20) {
        const SegmentBatch push = RandomPush(&streams, &rng, max_length);
        reference.Push(push);
        ASSERT_THAT(buffer->Push(push, step), IsOk());
      } else if (what < 38 && reference.count() > 0) {
        DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(reference.count() + (what % 3),
                                                                    step, WithReplacement()));
        ASSERT_THAT(reference.Check(batch), IsOk()) << "operation " << step;
        DING_ASSERT_OK_AND_ASSIGN(const Batch all, buffer->Sample(reference.count(), step));
        ASSERT_THAT(reference.Check(all), IsOk()) << "operation " << step;
      } else if (what == 38) {
        const TensorMap saved = Saved(*buffer);
        buffer = Make(settings);
        ASSERT_THAT(LoadFrom(buffer.get(), saved), IsOk());
        ASSERT_TRUE(SameBytes(saved, Saved(*buffer))) << "operation " << step;
      } else if (rng.UniformInt(3) == 0) {
        reference.Clear();
        buffer->Clear();
      }
      ASSERT_EQ(buffer->count(), reference.count()) << "operation " << step;
    }
  }
}

TEST_P(BufferConformance, EveryRowIsDrawnEquallyOften) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 100}}), 0), IsOk());
  constexpr int kDraws = 4000;
  for (const bool replace : {false, true}) {
    std::vector<double> seen(64, 0);
    for (int i = 0; i < kDraws; ++i) {
      DING_ASSERT_OK_AND_ASSIGN(
          const Batch batch, buffer->Sample(8, 0, replace ? WithReplacement() : SampleOptions()));
      for (const int64_t id : batch.column<int64_t>("replay_unique_id")) ++seen[id - 36];
    }
    // Each row's count has mean 500 and variance at most 500 (63/64 of it with replacement, less
    // without), so the sum of the squared deviations by 500 is at most chi-squared with 63 degrees
    // of freedom: above 128 once in 10^6 (Wilson and Hilferty 1931).
    double chi_squared = 0;
    for (const double count : seen) chi_squared += (count - 500) * (count - 500) / 500;
    EXPECT_LT(chi_squared, 128) << "replace " << replace;
    EXPECT_GT(chi_squared, 15) << "replace " << replace;  // More even than chance allows.
  }
}

TEST_P(BufferConformance, GoesOnAfterLoadingByteForByte) {
  for (const bool stacks : {false, true}) {
    SCOPED_TRACE(absl::StrCat("stacks ", stacks));
    BufferSettings settings;
    settings.nstep = 3;
    const std::unique_ptr<IBuffer> original = Make(settings);
    TestStreams streams(0, stacks);
    Rng rng(11, "pushes");
    for (int i = 0; i < 30; ++i) {
      EXPECT_THAT(original->Push(RandomPush(&streams, &rng, 5), i), IsOk());
      EXPECT_THAT(original->Sample(1, i), IsOk());
    }
    settings.seed = 999;  // Another stream of random numbers, until it is loaded.
    const std::unique_ptr<IBuffer> restored = Make(settings);
    ASSERT_THAT(LoadFrom(restored.get(), Saved(*original)), IsOk());
    EXPECT_EQ(restored->count(), original->count());
    EXPECT_EQ(restored->push_count(), original->push_count());
    for (int i = 0; i < 30; ++i) {
      const SegmentBatch push = RandomPush(&streams, &rng, 5);
      EXPECT_THAT(original->Push(push, i), IsOk());
      EXPECT_THAT(restored->Push(push, i), IsOk());
      DING_ASSERT_OK_AND_ASSIGN(const Batch expected, original->Sample(16, i));
      DING_ASSERT_OK_AND_ASSIGN(const Batch found, restored->Sample(16, i));
      ASSERT_TRUE(SameBytes(expected, found)) << "draw " << i;
    }
    EXPECT_TRUE(SameBytes(Saved(*original), Saved(*restored)));
  }
}

TEST_P(BufferConformance, ASnapshotDoesNotSeeLaterChanges) {
  for (const bool stacks : {false, true}) {
    SCOPED_TRACE(absl::StrCat("stacks ", stacks));
    BufferSettings settings;
    settings.capacity_rows = 40;
    std::unique_ptr<IBuffer> buffer = Make(settings);
    TestStreams streams(0, stacks);
    ASSERT_THAT(buffer->Push(streams.Make({{0, 20}, {1, 10, SegmentEnd::kTerminated}}), 0), IsOk());
    const TensorMap at_the_moment = Saved(*buffer);
    const StateSnapshot snapshot = buffer->Snapshot();

    const auto written_later = [&snapshot] {
      StateDict state;
      EXPECT_THAT(snapshot(&state), IsOk());
      return state.tensors();
    };
    for (int i = 0; i < 30; ++i) {  // Every row of the moment is evicted, its memory used again.
      ASSERT_THAT(buffer->Push(streams.Make({{0, 7}, {1, 9}}), 0), IsOk());
      ASSERT_THAT(buffer->Sample(4, 0), IsOk());
    }
    EXPECT_TRUE(SameBytes(written_later(), at_the_moment));
    buffer->Clear();
    EXPECT_TRUE(SameBytes(written_later(), at_the_moment));
    buffer.reset();
    EXPECT_TRUE(SameBytes(written_later(), at_the_moment));
  }
}

TEST_P(BufferConformance, AnEmptyBufferIsSavedAndLoaded) {
  const std::unique_ptr<IBuffer> fresh = Make();
  const std::unique_ptr<IBuffer> target = Make();
  TestStreams streams;
  EXPECT_THAT(target->Push(streams.Make({{0, 5}}), 0), IsOk());
  EXPECT_THAT(LoadFrom(target.get(), Saved(*fresh)), IsOk());
  EXPECT_EQ(target->count(), 0);
  EXPECT_THAT(target->Push(streams.Make({{0, 5}}), 0), IsOk());

  target->Clear();
  const TensorMap cleared = Saved(*target);
  EXPECT_THAT(LoadFrom(fresh.get(), cleared), IsOk());
  EXPECT_TRUE(SameBytes(cleared, Saved(*fresh)));
}

TEST_P(BufferConformance, OnlyValidRowsAreSaved) {
  const std::unique_ptr<IBuffer> buffer = Make();
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
  int64_t bytes = 0;
  for (const auto& [name, tensor] : Saved(*buffer)) bytes += tensor.size_bytes();
  EXPECT_LT(bytes, 1000);  // 64 rows would be 2,800.
  const std::unique_ptr<IBuffer> restored = Make();
  ASSERT_THAT(LoadFrom(restored.get(), Saved(*buffer)), IsOk());
  EXPECT_EQ(restored->count(), 3);
}

TEST_P(BufferConformance, StateWithATensorMissingIsRefusedWithoutATrace) {
  for (const bool stacks : {false, true}) {
    SCOPED_TRACE(absl::StrCat("stacks ", stacks));
    const std::unique_ptr<IBuffer> buffer = Make();
    TestStreams streams(0, stacks);
    EXPECT_THAT(buffer->Push(streams.Make({{0, 5}, {1, 2, SegmentEnd::kTruncated}}), 0), IsOk());
    const TensorMap good = Saved(*buffer);
    EXPECT_THAT(buffer->Push(streams.Make({{0, 5}}), 0), IsOk());
    const TensorMap before = Saved(*buffer);
    for (const auto& missing : good) {
      TensorMap damaged;
      for (const auto& [name, tensor] : good) {
        if (name != missing.first) damaged.Set(name, tensor);
      }
      EXPECT_FALSE(LoadFrom(buffer.get(), damaged).ok()) << missing.first;
      EXPECT_TRUE(SameBytes(before, Saved(*buffer))) << missing.first;
    }
  }
}

}  // namespace
}  // namespace ding
