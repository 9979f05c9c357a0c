#include "ding_worker/replay_buffer/sequence_buffer.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/buffer_conformance.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Sequences of one row are rows.
INSTANTIATE_TEST_SUITE_P(Sequence, BufferConformance,
                         testing::Values(BufferMaker([](const BufferSettings& settings) {
                           SequenceReplayBuffer::Options options;
                           options.capacity_rows = settings.capacity_rows;
                           options.nstep = settings.nstep;
                           options.gamma = settings.gamma;
                           options.unroll_len = 1;
                           options.seed = settings.seed;
                           return SequenceReplayBuffer::Create(options).value();
                         })));

std::unique_ptr<SequenceReplayBuffer> Make(const SequenceReplayBuffer::Options& options) {
  return SequenceReplayBuffer::Create(options).value();
}

SequenceReplayBuffer::Options Rows(int64_t unroll_len) {
  SequenceReplayBuffer::Options options;
  options.capacity_rows = 64;
  options.unroll_len = unroll_len;
  return options;
}

// All sequences that can be drawn: ids of their rows, by first rows. Checks padding and burn-in.
std::vector<std::vector<int64_t>> All(SequenceReplayBuffer* buffer, int64_t burn_in = 0) {
  std::vector<std::vector<int64_t>> sequences;
  const int64_t count = buffer->count();
  if (count == 0) return sequences;
  const Batch batch = buffer->Sample(count, 0).value();
  const int64_t rows = batch.rows() / count;
  EXPECT_EQ(batch.rows(), rows * count);
  const auto ids = batch.column<int64_t>("replay_unique_id");
  const auto mask = batch.column<uint8_t>("mask");
  for (int64_t i = 0; i < batch.rows(); ++i) {
    if (i % rows == 0) sequences.emplace_back();
    EXPECT_EQ(batch.column<uint8_t>("burn_in")[i], i % rows < burn_in);
    if (mask[i] != 0) {
      EXPECT_EQ(static_cast<int64_t>(sequences.back().size()), i % rows) << "a row after padding";
      sequences.back().push_back(ids[i]);
    } else {
      EXPECT_EQ(ids[i], sequences.back().back());
    }
  }
  std::sort(sequences.begin(), sequences.end());
  return sequences;
}

// The sequences that there should be, the plain way.
class Reference {
 public:
  explicit Reference(const SequenceReplayBuffer::Options& options) : options_(options) {}

  void Push(const SegmentBatch& data) {
    for (const Segment& segment : data.segments) {
      const auto newest = newest_.find(segment.stream);
      const bool known = newest != newest_.end();
      const bool goes_on = known && newest->second.next_step == segment.first_step;
      if (!known || !goes_on || newest->second.ended) {
        if (known) runs_[newest->second.run].over = true;
        newest_[segment.stream].run = runs_.size();
        runs_.push_back({{}, /*whole=*/!known || goes_on, false, false});
      }
      Newest& at = newest_[segment.stream];
      at.next_step = segment.first_step + segment.length;
      at.ended = segment.end != SegmentEnd::kCut;
      for (int64_t i = 0; i < segment.length; ++i) runs_[at.run].ids.push_back(next_id_++);
      if (at.ended) runs_[at.run].over = runs_[at.run].ended = true;
    }
    begin_id_ = std::max(begin_id_, next_id_ - options_.capacity_rows);
  }
  void Clear() { begin_id_ = next_id_; }

  std::vector<std::vector<int64_t>> All() const {
    std::vector<std::vector<int64_t>> sequences;
    for (const Run& run : runs_) {
      const auto rows = static_cast<int64_t>(run.ids.size());
      if (!options_.unroll_len.has_value()) {
        if (run.whole && run.ended && run.ids[0] >= begin_id_) sequences.push_back(run.ids);
        continue;
      }
      const int64_t wanted = *options_.unroll_len;
      const int64_t period = wanted - options_.overlap.value_or(wanted - 1);
      for (int64_t first = 0; first < rows; first += period) {
        if (run.ids[first] < begin_id_) continue;
        const int64_t last = std::min(first + wanted, rows);
        if (last - first < wanted && !(options_.padding && run.over)) continue;
        sequences.emplace_back(run.ids.begin() + first, run.ids.begin() + last);
      }
    }
    std::sort(sequences.begin(), sequences.end());
    return sequences;
  }

 private:
  struct Run {
    std::vector<int64_t> ids;
    bool whole;  // from the beginning of an episode
    bool over;   // nothing follows
    bool ended;  // with the episode
  };
  struct Newest {
    size_t run;
    int64_t next_step;
    bool ended;
  };

  const SequenceReplayBuffer::Options options_;
  int64_t next_id_ = 0;
  int64_t begin_id_ = 0;
  std::vector<Run> runs_;
  std::map<int64_t, Newest> newest_;
};

TEST(SequenceReplayBuffer, RandomOperationsAgreeWithTheReference) {
  int64_t compared = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Rng rng(seed, "sequences");
    SequenceReplayBuffer::Options options;
    options.capacity_rows = static_cast<int64_t>(8 + rng.UniformInt(100));
    options.unroll_len.reset();
    if (seed % 4 != 0) {
      options.unroll_len = static_cast<int64_t>(1 + rng.UniformInt(8));
      const auto rows = static_cast<uint64_t>(*options.unroll_len);
      if (rng.UniformInt(2) == 0) options.overlap = static_cast<int64_t>(rng.UniformInt(rows));
      options.padding = rng.UniformInt(2) == 0;
      options.burn_in = static_cast<int64_t>(rng.UniformInt(rows));
    }
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", capacity ", options.capacity_rows, ", unroll_len ",
                              options.unroll_len.value_or(0), ", overlap ",
                              options.overlap.value_or(-1), ", padding ", options.padding));
    const int64_t max_length = rng.UniformInt(2) == 0 ? 1 : 7;
    std::unique_ptr<SequenceReplayBuffer> buffer = Make(options);
    Reference reference(options);
    TestStreams streams(5);
    for (int step = 0; step < 100; ++step) {
      const uint64_t what = rng.UniformInt(40);
      if (what < 30) {
        const SegmentBatch push =
            RandomPush(&streams, &rng, what == 0 ? options.capacity_rows : max_length);
        reference.Push(push);
        ASSERT_THAT(buffer->Push(push, step), IsOk());
      } else if (what == 30) {
        reference.Clear();
        buffer->Clear();
      } else if (what < 34) {
        StateDict state;
        ASSERT_THAT(buffer->SaveState(&state), IsOk());
        buffer = Make(options);
        ASSERT_THAT(buffer->LoadState(&state), IsOk());
      }
      const auto expected = reference.All();
      ASSERT_EQ(All(buffer.get(), options.burn_in), expected) << "operation " << step;
      compared += static_cast<int64_t>(expected.size());
    }
  }
  EXPECT_GT(compared, 50000);
}

TEST(SequenceReplayBuffer, RowsOfASequenceFollowEachOther) {
  const auto buffer = Make(Rows(4));
  TestStreams streams;
  for (int i = 0; i < 12; ++i) {
    ASSERT_THAT(buffer->Push(streams.Make({{0, 1}, {1, 1}, {2, 1}}), 0), IsOk());
  }
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(9, 0));
  ASSERT_EQ(batch.rows(), 36);
  const auto place = batch.column<float>("obs/place");
  const auto next = batch.column<float>("next_obs/place");
  for (int64_t i = 0; i < 36; ++i) {
    EXPECT_EQ(next[4 * i + 1], place[4 * i + 1] + 1);
    if (i % 4 == 3) continue;
    EXPECT_EQ(place[4 * i], place[4 * (i + 1)]);
    EXPECT_EQ(place[4 * i + 1] + 1, place[4 * (i + 1) + 1]);
  }
}

// D51: an error status, not a loop.
TEST(SequenceReplayBuffer, NoSequenceThatIsLongEnoughIsAnError) {
  const auto buffer = Make(Rows(5));
  TestStreams streams;
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(buffer->Push(streams.Make({{0, 4, SegmentEnd::kTruncated}}), 0), IsOk());
  }
  EXPECT_EQ(buffer->count(), 0);
  SampleOptions options;
  options.replace = true;
  EXPECT_THAT(buffer->Sample(3, 0, options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("sample of 3 sequences of 5 rows from 0 there are in 64 rows")));
}

TEST(SequenceReplayBuffer, PaddingRepeatsTheLastRowOfAnEpisode) {
  SequenceReplayBuffer::Options options = Rows(4);
  options.overlap = 0;
  options.padding = true;
  options.burn_in = 1;
  const auto buffer = Make(options);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 2}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 0);  // More may come.
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1, SegmentEnd::kTerminated}}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_THAT(batch.column<int64_t>("replay_unique_id"), ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(batch.column<uint8_t>("mask"), ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(batch.column<uint8_t>("burn_in"), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(batch.column<float>("discount"), ElementsAre(0.99f, 0.99f, 0.f, 0.f));
}

TEST(SequenceReplayBuffer, NewestAreThoseThatBeganLast) {
  const auto buffer = Make(Rows(3));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 100}}), 0), IsOk());
  EXPECT_EQ(buffer->count(), 62);
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, options));
  EXPECT_THAT(batch.column<int64_t>("replay_unique_id"), ElementsAre(97, 98, 99));
}

TEST(SequenceReplayBuffer, EverySequenceIsDrawnEquallyOften) {
  const auto buffer = Make(Rows(5));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 12}, {1, 20}, {2, 4}, {3, 5}}), 0), IsOk());
  ASSERT_EQ(buffer->count(), 8 + 16 + 0 + 1);
  std::map<int64_t, double> seen;
  for (int i = 0; i < 2500; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(5, 0));
    for (int64_t b = 0; b < 5; ++b) ++seen[batch.column<int64_t>("replay_unique_id")[5 * b]];
  }
  ASSERT_EQ(seen.size(), 25);
  // At most chi-squared with 24 degrees of freedom: above 70 about once in 10^6.
  double chi_squared = 0;
  for (const auto& [id, count] : seen) chi_squared += (count - 500) * (count - 500) / 500;
  EXPECT_LT(chi_squared, 70);
}

TEST(SequenceReplayBuffer, ARefusedDrawLeavesTheRandomStream) {
  const auto buffer = Make(Rows(5));
  const auto same = Make(Rows(5));
  TestStreams streams;
  const SegmentBatch push = streams.Make({{0, 64}});
  ASSERT_THAT(buffer->Push(push, 0), IsOk());
  ASSERT_THAT(same->Push(push, 0), IsOk());
  SampleOptions options;
  options.replace = true;
  EXPECT_THAT(buffer->Sample(int64_t{1} << 60, 0, options),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_FALSE(buffer->Sample(61, 0).ok());
  DING_ASSERT_OK_AND_ASSIGN(const Batch a, buffer->Sample(20, 0));
  DING_ASSERT_OK_AND_ASSIGN(const Batch b, same->Sample(20, 0));
  EXPECT_EQ(a.column<int64_t>("replay_unique_id"), b.column<int64_t>("replay_unique_id"));
}

TEST(SequenceReplayBuffer, StateOfOtherSequencesIsRefused) {
  const auto buffer = Make(Rows(5));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 64}}), 0), IsOk());
  StateDict state;
  ASSERT_THAT(buffer->SaveState(&state), IsOk());
  const auto other = Make(Rows(6));
  EXPECT_THAT(other->LoadState(&state), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("unroll_len is 5, expected 6")));
  SequenceReplayBuffer::Options options = Rows(5);
  options.overlap = 0;
  EXPECT_THAT(Make(options)->LoadState(&state),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("period is 1, expected 5")));
}

TEST(SequenceReplayBuffer, AllWrongOptionsAreListed) {
  SequenceReplayBuffer::Options options = Rows(65);
  options.burn_in = 65;
  options.overlap = -1;
  options.nstep = 0;
  EXPECT_THAT(
      SequenceReplayBuffer::Create(options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("unroll_len is 65, expected 1 to 64"),
                     HasSubstr("burn_in is 65, expected 0 to 64"),
                     HasSubstr("overlap is -1, expected 0 to 64"), HasSubstr("nstep is 0"))));
}

}  // namespace
}  // namespace ding
