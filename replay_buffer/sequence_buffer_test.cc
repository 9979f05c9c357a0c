#include "ding_worker/replay_buffer/sequence_buffer.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/buffer_conformance.h"
#include "ding_worker/replay_buffer/testing/reference_buffer.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Sequences of one row are rows.
BufferMaker RowsMaker(bool cross_episodes) {
  return [cross_episodes](const BufferSettings& settings) {
    SequenceReplayBuffer::Options options;
    options.capacity_rows = settings.capacity_rows;
    options.nstep = settings.nstep;
    options.gamma = settings.gamma;
    options.unroll_len = 1;
    options.cross_episodes = cross_episodes;
    options.seed = settings.seed;
    return SequenceReplayBuffer::Create(options).value();
  };
}

INSTANTIATE_TEST_SUITE_P(Sequence, BufferConformance,
                         testing::Values(RowsMaker(false), RowsMaker(true)));

std::unique_ptr<SequenceReplayBuffer> Make(const SequenceReplayBuffer::Options& options) {
  return SequenceReplayBuffer::Create(options).value();
}

SequenceReplayBuffer::Options Rows(int64_t unroll_len) {
  SequenceReplayBuffer::Options options;
  options.capacity_rows = 64;
  options.unroll_len = unroll_len;
  return options;
}

SequenceReplayBuffer::Options Across(int64_t unroll_len) {
  SequenceReplayBuffer::Options options = Rows(unroll_len);
  options.cross_episodes = true;
  return options;
}

// All sequences that can be drawn: ids of their rows, by first rows. Checks padding, burn-in and,
// across episodes, is_first: that of the rows `first_rows`.
std::vector<std::vector<int64_t>> All(SequenceReplayBuffer* buffer, int64_t burn_in = 0,
                                      const std::set<int64_t>& first_rows = {}) {
  std::vector<std::vector<int64_t>> sequences;
  const int64_t count = buffer->count();
  if (count == 0) return sequences;
  const Batch batch = buffer->Sample(count, 0).value();
  const int64_t rows = batch.rows() / count;
  EXPECT_EQ(batch.rows(), rows * count);
  const auto ids = batch.column<int64_t>("replay_unique_id");
  const auto mask = batch.column<uint8_t>("mask");
  const bool across = batch.spec().Find("is_first").has_value();
  for (int64_t i = 0; i < batch.rows(); ++i) {
    if (i % rows == 0) sequences.emplace_back();
    if (across) {
      EXPECT_EQ(batch.column<uint8_t>("is_first")[i], mask[i] * first_rows.count(ids[i]))
          << "row " << ids[i];
    }
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

TEST(SequenceReplayBuffer, RandomOperationsAgreeWithTheReference) {
  int64_t compared[2] = {};
  for (uint64_t seed = 0; seed < 240; ++seed) {
    Rng rng(seed, "sequences");
    SequenceReplayBuffer::Options options;
    options.cross_episodes = seed % 2 == 1;
    options.capacity_rows = seed % 3 == 0 ? std::vector<int64_t>{1, 2, 17, 64}[seed / 6 % 4]
                                          : static_cast<int64_t>(8 + rng.UniformInt(100));
    options.unroll_len.reset();
    if (options.cross_episodes || seed % 8 != 0) {
      options.unroll_len = static_cast<int64_t>(
          1 + rng.UniformInt(static_cast<uint64_t>(std::min<int64_t>(8, options.capacity_rows))));
      const auto rows = static_cast<uint64_t>(*options.unroll_len);
      if (rng.UniformInt(2) == 0) options.overlap = static_cast<int64_t>(rng.UniformInt(rows));
      options.padding = rng.UniformInt(2) == 0;
      options.burn_in = static_cast<int64_t>(rng.UniformInt(rows));
    }
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", capacity ", options.capacity_rows, ", unroll_len ",
                              options.unroll_len.value_or(0), ", overlap ",
                              options.overlap.value_or(-1), ", padding ", options.padding,
                              ", cross_episodes ", options.cross_episodes));
    const int64_t max_length = rng.UniformInt(2) == 0 ? 1 : 7;
    std::unique_ptr<SequenceReplayBuffer> buffer = Make(options);
    ReferenceSequences reference(options);
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
      ASSERT_EQ(All(buffer.get(), options.burn_in, reference.first_rows()), expected)
          << "operation " << step;
      ASSERT_FALSE(HasFailure()) << "operation " << step;
      compared[options.cross_episodes] += static_cast<int64_t>(expected.size());
    }
  }
  EXPECT_GT(compared[false], 50000);
  EXPECT_GT(compared[true], 50000);
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
              IsFailedPrecondition("draw 3 sequences of 5 rows: the buffer holds 0 in 64 rows"));
}

TEST(SequenceReplayBuffer, WithoutSequencesTheErrorSaysWhatToSet) {
  const auto message = [](const SequenceReplayBuffer::Options& options, bool loaded) {
    auto buffer = Make(options);
    TestStreams streams;
    for (int i = 0; i < 4; ++i) {
      EXPECT_THAT(buffer->Push(streams.Make({{0, 1}, {0, 2, SegmentEnd::kTruncated}}), 0), IsOk());
    }
    streams.Skip(0, 1);
    EXPECT_THAT(buffer->Push(streams.Make({{0, 1}}), 0), IsOk());
    if (loaded) {
      const TensorMap saved = Saved(*buffer);
      buffer = Make(options);
      EXPECT_THAT(LoadFrom(buffer.get(), saved), IsOk());
    }
    const absl::Status status = buffer->Sample(1, 0).status();
    EXPECT_THAT(status, IsFailedPrecondition());
    return std::string(status.message());
  };
  for (const bool loaded : {false, true}) {
    SCOPED_TRACE(absl::StrCat("loaded ", loaded));
    EXPECT_THAT(message(Rows(20), loaded),
                HasSubstr("holds 0 in 13 rows; the longest run of rows of one episode so far has "
                          "3; if no longer one comes, set cross_episodes or padding, or a smaller "
                          "unroll_len"));
    EXPECT_THAT(message(Across(20), loaded),
                HasSubstr("; the longest run of rows of one stream so far has 12; if no longer one "
                          "comes, set padding, or a smaller unroll_len"));
  }
  SequenceReplayBuffer::Options padded = Rows(20);
  padded.padding = true;
  const auto buffer = Make(padded);
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, 7}}), 0), IsOk());
  EXPECT_THAT(buffer->Sample(1, 0),
              IsFailedPrecondition("so far has 7, and is padded once its episode is over"));
}

TEST(SequenceReplayBuffer, ADrawSetsTheLengthOfItsSequences) {
  SequenceReplayBuffer::Options options = Rows(6);
  options.overlap = 3;
  options.burn_in = 2;
  options.padding = true;
  const auto buffer = Make(options);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 10, SegmentEnd::kTerminated}}), 0), IsOk());
  ASSERT_EQ(buffer->count(), 4);  // From rows 0, 3, 6 and 9 on.
  SampleOptions sample;
  for (int64_t length = 3; length <= 10; ++length) {
    sample.sequence = length;
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(4, 0, sample));
    ASSERT_EQ(batch.sequence_length(), length);
    ASSERT_EQ(batch.rows(), 4 * length);
    const auto ids = batch.column<int64_t>("replay_unique_id");
    for (int64_t i = 0; i < batch.rows(); ++i) {
      const int64_t row = ids[i / length * length] + i % length;
      EXPECT_EQ(ids[i], std::min<int64_t>(row, 9));
      EXPECT_EQ(batch.column<uint8_t>("mask")[i], row <= 9);
      EXPECT_EQ(batch.column<uint8_t>("burn_in")[i], i % length < 2);
    }
  }
  for (const int64_t length : {int64_t{-1}, int64_t{0}, int64_t{2}}) {
    sample.sequence = length;
    EXPECT_THAT(buffer->Sample(1, 0, sample),
                IsInvalid(absl::StrCat("sequences of ", length, " rows are asked for ",
                                       "(SampleOptions::sequence), expected at least 3: "
                                       "more than burn_in, which is 2")));
  }
}

TEST(SequenceReplayBuffer, Sample_LongerThanEveryEpisode_IsRefused) {
  const auto buffer = Make(Rows(3));
  TestStreams streams;
  ASSERT_THAT(
      buffer->Push(streams.Make({{0, 4, SegmentEnd::kTerminated}, {1, 7, SegmentEnd::kTerminated}}),
                   0),
      IsOk());
  SampleOptions sample;
  sample.sequence = 7;  // Without padding in the options, too.
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(buffer->count(), 0, sample));
  int64_t rows = 0;
  for (const uint8_t there : batch.column<uint8_t>("mask")) rows += there;
  EXPECT_EQ(rows, 4 + 3 + 7 + 6 + 5 + 4 + 3) << "from each start to the end of its episode";
  sample.sequence = 8;
  EXPECT_THAT(buffer->Sample(1, 0, sample),
              IsInvalid("sequences of 8 rows are asked for (SampleOptions::sequence), "
                        "expected at most 7, the rows of the longest run of one episode"));
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
  EXPECT_THAT(buffer->Sample(int64_t{1} << 60, 0, options), IsResourceExhausted());
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
  EXPECT_THAT(other->LoadState(&state), IsInvalid("unroll_len is 5, expected 6"));
  SequenceReplayBuffer::Options options = Rows(5);
  options.overlap = 0;
  EXPECT_THAT(Make(options)->LoadState(&state), IsInvalid("period is 1, expected 5"));
  EXPECT_THAT(Make(Across(5))->LoadState(&state),
              IsInvalid("saved by a buffer of type 'sequence', expected 'sequence with "
                        "cross_episodes'"));
  StateDict across;
  ASSERT_THAT(Make(Across(5))->SaveState(&across), IsOk());
  EXPECT_THAT(buffer->LoadState(&across),
              IsInvalid("saved by a buffer of type 'sequence with cross_episodes', expected "
                        "'sequence'"));
}

TEST(SequenceReplayBuffer, AllWrongOptionsAreListed) {
  SequenceReplayBuffer::Options options = Rows(65);
  options.burn_in = 65;
  options.overlap = -1;
  options.nstep = 0;
  EXPECT_THAT(SequenceReplayBuffer::Create(options),
              IsInvalid("unroll_len is 65, expected 1 to 64", "burn_in is 65, expected 0 to 64",
                        "overlap is -1, expected 0 to 64", "nstep is 0"));
  options.unroll_len.reset();
  options.padding = true;
  options.cross_episodes = true;
  EXPECT_THAT(SequenceReplayBuffer::Create(options),
              IsInvalid("overlap is set for whole episodes", "padding is set for whole episodes",
                        "cross_episodes is set for whole episodes"));
}

// ------------------------------------------------------------------------------ across episodes

// Streams 0 (rows 0 to 2, 7 and 8) and 1 (rows 3 to 6, and 9), each with one end.
std::unique_ptr<SequenceReplayBuffer> TwoStreamsAcross(SequenceReplayBuffer::Options options) {
  options.overlap = 0;
  std::unique_ptr<SequenceReplayBuffer> buffer = Make(options);
  TestStreams streams;
  EXPECT_THAT(
      buffer->Push(
          streams.Make(
              {{0, 3, SegmentEnd::kTerminated}, {1, 4, SegmentEnd::kTruncated}, {0, 2}, {1, 1}}),
          0),
      IsOk());
  return buffer;
}

TEST(SequencesAcrossEpisodes, GoOnWithTheNextEpisodeOfTheirStream) {
  SequenceReplayBuffer::Options options = Across(5);
  options.burn_in = 4;
  const auto buffer = TwoStreamsAcross(options);
  ASSERT_EQ(buffer->count(), 2);
  SampleOptions newest;
  newest.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch one, buffer->Sample(1, 0, newest));
  EXPECT_THAT(one.column<int64_t>("replay_unique_id"), ElementsAre(3, 4, 5, 6, 9));
  EXPECT_THAT(one.column<uint8_t>("is_first"), ElementsAre(1, 0, 0, 0, 1));
  EXPECT_THAT(one.column<uint8_t>("mask"), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(one.column<uint8_t>("burn_in"), ElementsAre(1, 1, 1, 1, 0));
  EXPECT_THAT(one.column<float>("discount"), ElementsAre(0.99f, 0.99f, 0.99f, 0.99f, 0.99f));
  EXPECT_THAT(buffer->SequenceLengths(), ElementsAre(5, 5));
}

// The next observation and the n-step window of a row stay within its episode.
TEST(SequencesAcrossEpisodes, TheLastRowOfAnEpisodeKeepsItsOwnNextObservation) {
  for (const int64_t nstep : {1, 3}) {
    SCOPED_TRACE(nstep);
    SequenceReplayBuffer::Options options = Across(5);
    options.nstep = nstep;
    const auto buffer = TwoStreamsAcross(options);
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(2, 0));
    const int64_t first = batch.column<int64_t>("replay_unique_id")[0] == 0 ? 0 : 5;
    EXPECT_THAT(batch.column<int64_t>("replay_unique_id").subspan(first, 5),
                ElementsAre(0, 1, 2, 7, 8));
    EXPECT_THAT(batch.column<uint8_t>("is_first").subspan(first, 5), ElementsAre(1, 0, 0, 1, 0));
    EXPECT_THAT(batch.column<int32_t>("n_step").subspan(first + 2, 2),
                ElementsAre(1, nstep == 1 ? 1 : 2));
    EXPECT_EQ(batch.column<float>("discount")[first + 2], 0);
    // Stream, step, episode, steps into it.
    EXPECT_THAT(batch.column<float>("next_obs/place").subspan(4 * (first + 2), 4),
                ElementsAre(0, 3, 0, 3));
    EXPECT_THAT(batch.column<float>("obs/place").subspan(4 * (first + 3), 4),
                ElementsAre(0, 3, 1, 0));
  }
}

TEST(SequencesAcrossEpisodes, EndWhereStepsAreLost) {
  for (const bool padding : {false, true}) {
    SCOPED_TRACE(padding);
    SequenceReplayBuffer::Options options = Across(4);
    options.overlap = 0;
    options.padding = padding;
    const auto buffer = Make(options);
    TestStreams streams;
    ASSERT_THAT(buffer->Push(streams.Make({{0, 1, SegmentEnd::kTerminated}, {0, 1}}), 0), IsOk());
    ASSERT_THAT(buffer->Push(streams.Make({{0, 1, SegmentEnd::kTruncated}}), 0), IsOk());
    EXPECT_EQ(buffer->count(), 0);  // More may come.
    streams.Skip(0, 1);
    ASSERT_THAT(buffer->Push(streams.Make({{0, 3, SegmentEnd::kTerminated}, {0, 1}}), 0), IsOk());
    ASSERT_EQ(buffer->count(), padding ? 2 : 1);
    SampleOptions newest;
    newest.newest = 1;
    DING_ASSERT_OK_AND_ASSIGN(const Batch after, buffer->Sample(1, 0, newest));
    EXPECT_THAT(after.column<int64_t>("replay_unique_id"), ElementsAre(3, 4, 5, 6));
    EXPECT_THAT(after.column<uint8_t>("is_first"), ElementsAre(0, 0, 0, 1));
    if (!padding) continue;
    DING_ASSERT_OK_AND_ASSIGN(const Batch both, buffer->Sample(2, 0));
    const int64_t before = both.column<int64_t>("replay_unique_id")[0] == 0 ? 0 : 4;
    EXPECT_THAT(both.column<int64_t>("replay_unique_id").subspan(before, 4),
                ElementsAre(0, 1, 2, 2));
    EXPECT_THAT(both.column<uint8_t>("is_first").subspan(before, 4), ElementsAre(1, 1, 0, 0));
    EXPECT_THAT(both.column<uint8_t>("mask").subspan(before, 4), ElementsAre(1, 1, 1, 0));
  }
}

// A repetition begins no episode.
TEST(SequencesAcrossEpisodes, PaddingIsNotAFirstRow) {
  SequenceReplayBuffer::Options options = Across(2);
  options.overlap = 0;
  options.padding = true;
  const auto buffer = Make(options);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1, SegmentEnd::kTerminated}}), 0), IsOk());
  streams.Skip(0, 1);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 0), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
  EXPECT_THAT(batch.column<int64_t>("replay_unique_id"), ElementsAre(0, 0));
  EXPECT_THAT(batch.column<uint8_t>("is_first"), ElementsAre(1, 0));
}

// Every column of every row is that of the plain buffer, which knows nothing of sequences.
TEST(SequencesAcrossEpisodes, StacksOfFramesStayWithinTheirEpisode) {
  int64_t first_rows = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "stacks");
    SequenceReplayBuffer::Options options = Across(6);
    options.nstep = seed % 3 == 0 ? 3 : 1;
    const auto buffer = Make(options);
    ReferenceBuffer reference(options.capacity_rows, options.nstep, options.gamma);
    TestStreams streams(0, /*stacks=*/true);
    for (int step = 0; step < 60; ++step) {
      const SegmentBatch push = RandomPush(&streams, &rng, 4);
      reference.Push(push);
      ASSERT_THAT(buffer->Push(push, step), IsOk());
      if (buffer->count() == 0) continue;
      DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(buffer->count(), 0));
      ASSERT_THAT(reference.Check(batch), IsOk());
      const auto is_first = batch.column<uint8_t>("is_first");
      for (int64_t i = 0; i < batch.rows(); ++i) first_rows += i % 6 != 0 && is_first[i] != 0;
    }
  }
  EXPECT_GT(first_rows, 1000);
}

TEST(SequencesAcrossEpisodes, DamagedStateIsRefused) {
  const auto buffer = TwoStreamsAcross(Across(5));
  const TensorMap good = Saved(*buffer);
  const auto expect_refused = [&](const std::string& name, int64_t index, int64_t value,
                                  const std::string& why) {
    TensorMap damaged = CloneAll(good);
    Tensor* const tensor = damaged.FindMutable(name);
    ASSERT_NE(tensor, nullptr) << name;
    tensor->mutable_data<int64_t>()[index] = value;
    EXPECT_THAT(LoadFrom(buffer.get(), damaged), IsInvalid(why))
        << name << " " << index << " is " << value;
    EXPECT_TRUE(SameBytes(good, Saved(*buffer)));
  };
  ASSERT_THAT(LoadFrom(buffer.get(), good), IsOk());

  const std::string begins = "sequences/episodes/begins";  // 0, 3, 7, 9
  expect_refused(begins, 0, -1,
                 "row -1 begins an episode but is out of order or not in the buffer");
  expect_refused(begins, 3, 10,
                 "row 10 begins an episode but is out of order or not in the buffer");
  expect_refused(begins, 1, 0, "row 0 begins an episode but is out of order or not in the buffer");
  expect_refused(begins, 1, 5, "row 5 begins an episode in the middle of another");
  expect_refused(begins, 2, 8, "row 8 begins an episode in the middle of another");

  const std::string lasts = "sequences/episodes/lasts";  // 2, 6
  expect_refused(lasts, 0, -1, "row -1 ends an episode but is out of order or not in the buffer");
  expect_refused(lasts, 1, 10, "row 10 ends an episode but is out of order or not in the buffer");
  expect_refused(lasts, 0, 6, "row 6 ends an episode but is out of order or not in the buffer");
  expect_refused(lasts, 0, 1, "row 1 does not end an episode");
  expect_refused(lasts, 1, 9, "row 9 does not end an episode");

  const std::string nexts = "sequences/episodes/nexts";  // 7, 9
  expect_refused(nexts, 0, 0, "row 2 cannot be followed by row 0");
  expect_refused(nexts, 0, 8, "row 2 cannot be followed by row 8");
  expect_refused(nexts, 0, 10, "row 2 cannot be followed by row 10");
  expect_refused(nexts, 1, 7, "row 6 cannot be followed by row 7");

  expect_refused("sequences/at_beginning", 0, 2, "the run of stream 0 is impossible");
  expect_refused("sequences/at_beginning", 0, 1, "row 8 cannot be the newest of stream 0");
  expect_refused("sequences/last_ids", 0, 7, "row 7 cannot be the newest of stream 0");
  expect_refused("sequences/last_ids", 0, 2, "row 2 cannot be the newest of stream 0");
  expect_refused("sequences/last_ids", 0, 9, "a row is the newest of two streams");
}

std::unique_ptr<EpisodeReplayBuffer> Make(int64_t capacity_rows = 20) {
  EpisodeReplayBuffer::Options options;
  options.capacity_rows = capacity_rows;
  return EpisodeReplayBuffer::Create(options).value();
}

TEST(EpisodeReplayBuffer, OnlyCompleteEpisodesAreDrawn) {
  const auto buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3}, {1, 2, SegmentEnd::kTruncated}, {1, 4}}), 0),
              IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(2));
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(4, 2));
  EXPECT_EQ(buffer->count(), 2);
  EXPECT_EQ(buffer->push_count(), 10);
  EXPECT_THAT(buffer->Sample(3, 0),
              IsFailedPrecondition("3 distinct whole episodes: the buffer holds 2 in 10 rows"));
}

TEST(EpisodeReplayBuffer, ShorterEpisodesArePaddedToTheLongestDrawn) {
  const auto buffer = Make();
  TestStreams streams;
  ASSERT_THAT(
      buffer->Push(streams.Make({{0, 3, SegmentEnd::kTerminated}, {0, 1, SegmentEnd::kTruncated}}),
                   0),
      IsOk());
  SampleOptions options;
  options.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch newest, buffer->Sample(1, 0, options));
  EXPECT_THAT(newest.column<int64_t>("replay_unique_id"), ElementsAre(3));
  DING_ASSERT_OK_AND_ASSIGN(const Batch both, buffer->Sample(2, 0));
  const int64_t longer = both.column<int64_t>("replay_unique_id")[0] == 0 ? 0 : 3;
  EXPECT_THAT(both.column<int64_t>("replay_unique_id").subspan(longer, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(both.column<int64_t>("replay_unique_id").subspan(3 - longer, 3),
              ElementsAre(3, 3, 3));
  EXPECT_THAT(both.column<uint8_t>("mask").subspan(3 - longer, 3), ElementsAre(1, 0, 0));
}

TEST(EpisodeReplayBuffer, AnEpisodeThatLostRowsIsNotWhole) {
  const auto buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
  streams.Skip(0, 1);
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), IsEmpty());
  // The next one is; then its beginning is evicted.
  ASSERT_THAT(buffer->Push(streams.Make({{0, 5, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(5));
  ASSERT_THAT(buffer->Push(streams.Make({{0, 16}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), IsEmpty());
  // Nor is one of which the beginning was cleared.
  buffer->Clear();
  ASSERT_THAT(buffer->Push(streams.Make({{0, 2, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), IsEmpty());
  EXPECT_EQ(buffer->push_count(), 2);
}

// D50: episode_len of a buffer that is not full, also after loading.
TEST(EpisodeReplayBuffer, GoesOnAfterLoading) {
  const auto buffer = Make();
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3, SegmentEnd::kTerminated}, {0, 2}, {1, 1}}), 0),
              IsOk());
  StateDict state;
  ASSERT_THAT(buffer->SaveState(&state), IsOk());
  const auto restored = Make();
  ASSERT_THAT(restored->LoadState(&state), IsOk());
  ASSERT_THAT(restored->Push(streams.Make({{0, 2, SegmentEnd::kTerminated}}), 0), IsOk());
  EXPECT_THAT(restored->episode_len(), ElementsAre(3, 4));
}

// Items, which are whole episodes of these lengths.
SegmentBatch Episodes(const std::vector<int64_t>& lengths) {
  std::vector<Item> items;
  int64_t row = 0;
  for (const int64_t length : lengths) {
    items.push_back({/*chunk=*/1, row, length});
    row += length;
  }
  return TestItems(items);
}

TEST(EpisodeReplayBuffer, TheCapacityCountsTheRowsOfItems) {
  const auto buffer = Make(10);
  ASSERT_THAT(buffer->Push(Episodes({6, 3, 4}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(3, 4));
  ASSERT_THAT(buffer->Push(Episodes({2, 1}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(3, 4, 2, 1));
  EXPECT_EQ(buffer->push_count(), 5);
  DING_ASSERT_OK_AND_ASSIGN(const Batch drawn, buffer->Sample(4, 0));
  EXPECT_EQ(drawn.sequence_length(), 1);
  EXPECT_THAT(drawn.column<int64_t>("length"), UnorderedElementsAre(3, 4, 2, 1));
  EXPECT_THAT(drawn.column<int64_t>("replay_unique_id"), UnorderedElementsAre(1, 2, 3, 4));
  ASSERT_THAT(buffer->Push(Episodes({10}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(10));
  buffer->Clear();
  EXPECT_THAT(buffer->episode_len(), IsEmpty());
  ASSERT_THAT(buffer->Push(Episodes({1}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(1));
}

TEST(EpisodeReplayBuffer, AnItemThatIsLongerThanTheCapacityIsNeverDrawn) {
  const auto buffer = Make(10);
  ASSERT_THAT(buffer->Push(Episodes({3, 11}), 0), IsOk());
  EXPECT_THAT(buffer->Sample(1, 0),
              IsFailedPrecondition("the buffer holds 0; the longest episode so far has 11 rows, "
                                   "expected at most as many as replay_buffer_size, which is 10"));
  ASSERT_THAT(buffer->Push(Episodes({std::numeric_limits<int64_t>::max()}), 0), IsOk());
  ASSERT_THAT(buffer->Push(Episodes({4, 5}), 0), IsOk());
  EXPECT_THAT(buffer->episode_len(), ElementsAre(4, 5));
}

TEST(EpisodeReplayBuffer, RefusesItemsWithoutRows) {
  const auto buffer = Make(10);
  SegmentBatch items = Episodes({3, 1});
  BatchBuilder rows = BatchBuilder::Create(items.rows.spec_ptr(), 2).value();
  CopyRows(items.rows.view(), rows.view(), 0);
  rows.column<int64_t>(*items.rows.spec().Find("length"))[1] = 0;
  items.rows = std::move(rows).Seal(2);
  EXPECT_THAT(buffer->Push(items, 0),
              IsInvalid("item 1 of 2 is an episode of 0 rows, expected at least 1"));
  EXPECT_EQ(buffer->count(), 0);
}

TEST(EpisodeReplayBuffer, GoesOnWithItemsAfterLoading) {
  const auto buffer = Make(10);
  ASSERT_THAT(buffer->Push(Episodes({6, 3, 4}), 0), IsOk());
  StateDict state;
  ASSERT_THAT(buffer->SaveState(&state), IsOk());
  const auto restored = Make(10);
  ASSERT_THAT(restored->LoadState(&state), IsOk());
  EXPECT_THAT(restored->episode_len(), ElementsAre(3, 4));
  ASSERT_THAT(restored->Push(Episodes({4}), 0), IsOk());
  EXPECT_THAT(restored->episode_len(), ElementsAre(4, 4));
}

TEST(EpisodeReplayBuffer, AllWrongOptionsAreListed) {
  EpisodeReplayBuffer::Options options;
  options.capacity_rows = 0;
  options.gamma = 2;
  EXPECT_THAT(EpisodeReplayBuffer::Create(options),
              IsInvalid("replay_buffer_size is 0", "discount_factor"));
}

}  // namespace
}  // namespace ding
