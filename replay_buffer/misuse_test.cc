// What replay buffers do with sizes, steps, options and callbacks that nobody should give them. Run
// it with AddressSanitizer and UndefinedBehaviorSanitizer, too.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Not;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class BufferMisuse : public testing::TestWithParam<BufferType> {
 protected:
  BufferMisuse() : buffer_(GetParam().make(BufferSettings())) {
    TestStreams streams;
    EXPECT_THAT(buffer_->Push(streams.Make({{0, 20, SegmentEnd::kTerminated}, {1, 9}}), 0), IsOk());
  }

  const std::unique_ptr<IBuffer> buffer_;
};

INSTANTIATE_TEST_SUITE_P(Types, BufferMisuse, testing::ValuesIn(BufferTypes()), NameOfBufferType);

TEST_P(BufferMisuse, Sample_SizesAndPartsOutOfRange_AreErrors) {
  for (const bool replace : {false, true}) {
    SampleOptions options;
    options.replace = replace;
    for (const int64_t size : {int64_t{0}, int64_t{-1}, kMin, kMax}) {
      EXPECT_THAT(buffer_->Sample(size, 0, options), Not(IsOk())) << size;
    }
    for (const int64_t newest : {int64_t{0}, int64_t{-1}, kMin}) {
      options.newest = newest;
      EXPECT_THAT(buffer_->Sample(1, 0, options), IsInvalid()) << newest;
    }
    options.newest = std::nullopt;
    for (const int64_t length : {int64_t{0}, int64_t{-1}, kMin, kMax}) {
      options.sequence = length;
      EXPECT_THAT(buffer_->Sample(1, 0, options), Not(IsOk())) << length;
    }
    options.sequence = std::nullopt;
    for (const int64_t begin : {kMin, int64_t{-1}, int64_t{0}, kMax}) {
      for (const int64_t end : {kMin, int64_t{-1}, int64_t{0}, kMax}) {
        options.range = AgeRange{begin, end};
        (void)buffer_->Sample(1, 0, options);  // Some are legal: none may overflow.
      }
    }
    options.range = AgeRange{kMax, std::nullopt};
    EXPECT_THAT(buffer_->Sample(1, 0, options), IsFailedPrecondition());
  }
}

TEST_P(BufferMisuse, IterationsAndStepsAtTheEndsOfTheType_DoNotOverflow) {
  TestStreams streams(/*first_step=*/1000);
  for (const int64_t at : {kMin, int64_t{-1}, int64_t{0}, kMax, kMin}) {
    EXPECT_THAT(buffer_->Push(streams.Make({{5, 7, SegmentEnd::kTerminated}}), at), IsOk()) << at;
    SampleOptions options;
    options.replace = true;
    // Rows may be too stale by then.
    const auto batch = buffer_->Sample(1, at, options);
    EXPECT_TRUE(batch.ok() || absl::IsFailedPrecondition(batch.status())) << batch.status();
  }
}

TEST_P(BufferMisuse, Push_SegmentsThatOverflow_AreRefused) {
  TestStreams streams;
  const SegmentBatch good = streams.Make({{2, 3}, {3, 2}});
  const int64_t count = buffer_->push_count();
  for (const Segment& wrong : std::vector<Segment>{{2, 0, 0, kMax, SegmentEnd::kCut},
                                                   {2, 0, 0, kMin, SegmentEnd::kCut},
                                                   {2, kMax, 0, 3, SegmentEnd::kCut},
                                                   {2, kMax - 2, 0, 3, SegmentEnd::kCut},
                                                   {2, kMin, 0, 3, SegmentEnd::kCut},
                                                   {2, 0, kMax, 3, SegmentEnd::kCut},
                                                   {2, 0, 0, 3, static_cast<SegmentEnd>(7)}}) {
    SegmentBatch data = good;
    data.segments[0] = wrong;
    EXPECT_THAT(buffer_->Push(data, 0), IsInvalid());
  }
  EXPECT_EQ(buffer_->push_count(), count);
  EXPECT_THAT(buffer_->Push(good, 0), IsOk());
}

TEST(BufferOptionsMisuse, NumbersOutOfRange_AreRefused) {
  for (const int64_t value : {int64_t{0}, int64_t{-1}, kMin, kMax}) {
    NaiveReplayBuffer::Options rows;
    rows.capacity_rows = value;
    EXPECT_THAT(NaiveReplayBuffer::Create(rows), IsInvalid()) << value;
    SequenceReplayBuffer::Options sequences;
    sequences.unroll_len = value;
    EXPECT_THAT(SequenceReplayBuffer::Create(sequences), IsInvalid()) << value;
    if (value == 0) continue;
    sequences.unroll_len = 8;
    sequences.overlap = value;
    EXPECT_THAT(SequenceReplayBuffer::Create(sequences), IsInvalid()) << value;
    sequences.unroll_len = kMin;
    EXPECT_THAT(SequenceReplayBuffer::Create(sequences), IsInvalid()) << value;
    sequences = {};
    sequences.burn_in = value;
    EXPECT_THAT(SequenceReplayBuffer::Create(sequences), IsInvalid()) << value;
  }
  for (const int64_t value : {int64_t{0}, int64_t{-1}, kMin}) {
    NaiveReplayBuffer::Options rows;
    rows.nstep = value;
    EXPECT_THAT(NaiveReplayBuffer::Create(rows), IsInvalid()) << value;
    rows = {};
    rows.capacity_bytes = value;
    EXPECT_THAT(NaiveReplayBuffer::Create(rows), IsInvalid()) << value;
    AdvancedReplayBuffer::Options prioritized;
    prioritized.max_use = value;
    EXPECT_THAT(AdvancedReplayBuffer::Create(prioritized), IsInvalid()) << value;
    prioritized = {};
    prioritized.max_staleness = value;
    EXPECT_THAT(AdvancedReplayBuffer::Create(prioritized), IsInvalid()) << value;
  }
  NaiveReplayBuffer::Options rows;
  rows.gamma = kNan;
  EXPECT_THAT(NaiveReplayBuffer::Create(rows), IsInvalid());
  AdvancedReplayBuffer::Options prioritized;
  prioritized.alpha = kNan;
  EXPECT_THAT(AdvancedReplayBuffer::Create(prioritized), IsInvalid());
  prioritized = {};
  prioritized.sample_min_limit_ratio = kNan;
  EXPECT_THAT(AdvancedReplayBuffer::Create(prioritized), IsInvalid());
}

TEST(BufferOptionsMisuse, NStepAndStalenessOfTheLargestNumber_Work) {
  AdvancedReplayBuffer::Options options;
  options.capacity_rows = 64;
  options.nstep = kMax;
  options.max_staleness = kMax;
  options.max_use = kMax;
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, AdvancedReplayBuffer::Create(options));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 9, SegmentEnd::kTerminated}}), 0), IsOk());
  for (const int64_t iter : {kMin, int64_t{0}, kMax}) {
    EXPECT_THAT(buffer->Sample(4, iter), IsOk()) << iter;
  }
}

TEST(BufferCallbackMisuse, OnRemovedThatThrows_IsAnErrorOfThePush) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = 4;
  options.on_removed = [](const RemovedItems&) { throw std::runtime_error("no such file"); };
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, NaiveReplayBuffer::Create(options));
  ASSERT_THAT(buffer->Push(TestItemsOfChunk(1, 4), 0), IsOk());
  EXPECT_THAT(buffer->Push(TestItemsOfChunk(2, 4), 0), IsInternal("on_removed threw an exception"));
  EXPECT_EQ(buffer->push_count(), 8) << "the rows are in the buffer";
}

TEST(BufferCallbackMisuse, WindowOfAnElasticBuffer_NullOrThrows_IsAnError) {
  ElasticReplayBuffer::Options options;
  EXPECT_THAT(ElasticReplayBuffer::Create(options), IsInvalid("window_rows"));
  for (const int64_t rows : {int64_t{0}, int64_t{-1}, kMin}) {
    options.window_rows = [rows](int64_t) { return rows; };
    EXPECT_THAT(ElasticReplayBuffer::Create(options), IsInvalid());
  }
  options.window_rows = [](int64_t step) -> int64_t {
    if (step > 0) throw std::runtime_error("no window");
    return kMax;
  };
  DING_ASSERT_OK_AND_ASSIGN(const auto buffer, ElasticReplayBuffer::Create(options));
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
  EXPECT_THAT(buffer->Push(streams.Make({{0, 3}}), 1), IsInternal("no window"));
  EXPECT_EQ(buffer->count(), 3);
}

// Chooses the same rank again and again, and throws where it may not.
class OneRank : public ISelector {
 public:
  explicit OneRank(int64_t rank) : rank_(rank) {}
  absl::Status Select(const Candidates&, int64_t, bool, Rng*, absl::Span<int64_t> ranks) override {
    for (int64_t& rank : ranks) rank = rank_;
    return absl::OkStatus();
  }
  void Update(const PriorityInfo&) override { throw std::runtime_error("no priorities"); }

 private:
  const int64_t rank_;
};

TEST(BufferCallbackMisuse, SelectorOutOfRangeOrThatThrows_IsAnError) {
  for (const int64_t rank : {int64_t{-1}, int64_t{3}, kMin, kMax}) {
    NaiveReplayBuffer::Options options;
    options.selector = std::make_shared<OneRank>(rank);
    DING_ASSERT_OK_AND_ASSIGN(const auto buffer, NaiveReplayBuffer::Create(options));
    TestStreams streams;
    ASSERT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
    EXPECT_THAT(buffer->Sample(2, 0), IsInternal()) << rank;
    EXPECT_THAT(buffer->Update({}), IsInternal("no priorities"));
  }
}

}  // namespace
}  // namespace ding
