#include "ding_worker/data/segment.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/allocation_count.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/sequence_samples.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;

Batch Rows(std::vector<FieldSpec> fields, int64_t rows) {
  return BatchBuilder::Create(MakeSpec(std::move(fields)).value(), rows).value().Seal(rows);
}

// Valid segments of 3, 1 and 2 rows.
SegmentBatch Good() {
  SegmentBatch data;
  data.rows = Rows({Box("obs", {4}), Discrete("action", 2)}, 6);
  data.final_obs = Rows({Box("obs", {4})}, 3);
  data.segments = {{0, 10, 0, 3, SegmentEnd::kCut},
                   {1, 5, 3, 1, SegmentEnd::kTerminated},
                   {0, 13, 4, 2, SegmentEnd::kTruncated}};
  return data;
}

TEST(ValidateSegments, AcceptsValidSegmentsAndAnEmptyBatch) {
  EXPECT_THAT(ValidateSegments(Good()), IsOk());
  EXPECT_THAT(ValidateSegments(SegmentBatch()), IsOk());
  EXPECT_EQ(Good().size(), 6);
}

TEST(ValidateSegments, RefusesGapsOverlapsAndEmptySegments) {
  SegmentBatch gap = Good();
  gap.segments[1].begin = 4;
  EXPECT_THAT(ValidateSegments(gap),
              IsInvalid("segment 1 of stream 1", "1 rows from row 4", "from row 3 of 6"));
  SegmentBatch overlap = Good();
  overlap.segments[2].begin = 3;
  EXPECT_THAT(ValidateSegments(overlap), IsInvalid("segment 2 of stream 0"));
  SegmentBatch empty = Good();
  empty.segments[1].length = 0;
  EXPECT_THAT(ValidateSegments(empty), IsInvalid("at least one row"));
}

TEST(ValidateSegments, RefusesRowsOutsideOfSegments) {
  SegmentBatch data = Good();
  data.segments[2].length = 1;
  EXPECT_THAT(ValidateSegments(data), IsInvalid("cover 5 rows of 6"));
  data.segments[2].length = 3;
  EXPECT_THAT(ValidateSegments(data), IsInvalid("covers 3 rows from row 4"));
}

TEST(ValidateSegments, RefusesFinalObservationsOfAnotherLayout) {
  SegmentBatch few = Good();
  few.final_obs = few.final_obs.Slice(0, 2);
  EXPECT_THAT(ValidateSegments(few), IsInvalid("final_obs has 2 rows for 3 segments"));
  SegmentBatch shape = Good();
  shape.final_obs = Rows({Box("obs", {5})}, 3);
  EXPECT_THAT(ValidateSegments(shape), IsInvalid("'obs' is float32[5]", "float32[4]"));
  SegmentBatch more = Good();
  more.final_obs = Rows({Box("obs", {4}), Discrete("action", 2), Box("map", {1})}, 3);
  EXPECT_THAT(ValidateSegments(more), IsInvalid("'map'", "missing"));
}

// Segments of these lengths. Observation i of the stream of segment s is s * 1000 + i, the action
// of row r is r % 7; the specs are shared, as those of a collector are.
class Collector {
 public:
  SegmentBatch Collect(const std::vector<int64_t>& lengths) const {
    SegmentBatch data;
    int64_t rows = 0;
    for (const int64_t length : lengths) {
      const auto stream = static_cast<int64_t>(data.segments.size());
      data.segments.push_back(
          {stream, 100 * stream, rows, length, static_cast<SegmentEnd>(stream % 3)});
      rows += length;
    }
    BatchBuilder builder = *BatchBuilder::Create(rows_, rows);
    BatchBuilder final_obs = *BatchBuilder::Create(obs_, static_cast<int64_t>(lengths.size()));
    for (const Segment& segment : data.segments) {
      for (int64_t i = 0; i <= segment.length; ++i) {
        const bool is_row = i < segment.length;
        const absl::Span<float> obs = is_row ? builder.view().row(segment.begin + i).field<float>(0)
                                             : final_obs.view().row(segment.stream).field<float>(0);
        obs[0] = static_cast<float>(1000 * segment.stream + i);
        obs[1] = -obs[0];
        if (is_row) builder.column<int64_t>(1)[segment.begin + i] = (segment.begin + i) % 7;
      }
    }
    data.rows = std::move(builder).Seal(rows);
    data.final_obs = std::move(final_obs).Seal(static_cast<int64_t>(lengths.size()));
    return data;
  }

 private:
  const SpecPtr rows_ = *MakeSpec({Box("obs", {2}), Discrete("action", 7)});
  const SpecPtr obs_ = *MakeSpec({Box("obs", {2})});
};

// Every second float: element 0 of each observation.
std::vector<float> Obs(const Batch& batch) {
  std::vector<float> values;
  for (int64_t i = 0; i < batch.rows(); ++i) values.push_back(batch.column<float>(0)[2 * i]);
  return values;
}

std::vector<int> Mask(const Batch& batch) {
  const absl::Span<const uint8_t> mask = batch.column<uint8_t>(kColumnMask);
  return {mask.begin(), mask.end()};
}

TEST(SequenceSamples, PadsTheRestWithCopiesOfItsLastRow) {
  SequenceSamples samples(3, LastSample::kNullPadding);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch cut, samples.Cut(Collector().Collect({7, 2})));
  EXPECT_EQ(cut.rows.sequence_length(), 3);
  EXPECT_THAT(Obs(cut.rows), ElementsAre(0, 1, 2, 3, 4, 5, 6, 6, 6, 1000, 1001, 1001));
  EXPECT_THAT(Mask(cut.rows), ElementsAre(1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0));
  EXPECT_THAT(Obs(cut.final_obs), ElementsAre(3, 6, 7, 1002));
  EXPECT_EQ(cut.rows.spec().field(2).DebugString(), Scalar("mask", DType::kBool).DebugString());
}

TEST(SequenceSamples, BorrowsRowsOfThePreviousSampleOfTheSegment) {
  SequenceSamples samples(3, LastSample::kLast);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch cut, samples.Cut(Collector().Collect({7, 2})));
  EXPECT_THAT(Obs(cut.rows), ElementsAre(0, 1, 2, 3, 4, 5, 4, 5, 6, 1000, 1001, 1001));
  EXPECT_THAT(Mask(cut.rows), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0));
  EXPECT_THAT(Obs(cut.final_obs), ElementsAre(3, 6, 7, 1002));
  EXPECT_EQ(cut.segments[2].first_step, 4);
}

TEST(SequenceSamples, DropsTheRest) {
  SequenceSamples samples(3, LastSample::kDrop);
  DING_ASSERT_OK_AND_ASSIGN(SegmentBatch cut, samples.Cut(Collector().Collect({7, 2})));
  EXPECT_THAT(Obs(cut.rows), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Mask(cut.rows), ElementsAre(1, 1, 1, 1, 1, 1));
  DING_ASSERT_OK_AND_ASSIGN(cut, samples.Cut(Collector().Collect({2, 1})));
  EXPECT_EQ(cut.size(), 0);
  EXPECT_EQ(cut.rows.sequence_length(), 3);
  EXPECT_EQ(cut.rows.spec().size(), 3) << "the layout does not depend on the number of samples";
  EXPECT_THAT(ValidateSegments(cut), IsOk());
}

TEST(SequenceSamples, CutsNothingOfAnEmptyCollect) {
  SequenceSamples samples(3, LastSample::kNullPadding);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch cut, samples.Cut(SegmentBatch()));
  EXPECT_EQ(cut.size(), 0);
  EXPECT_TRUE(cut.segments.empty());
}

struct Row {
  float obs;
  int64_t action;
  bool mask;
};

// The samples of one segment by the definitions, one row at a time.
std::vector<std::vector<Row>> NaiveSamples(const SegmentBatch& data, const Segment& segment,
                                           int64_t length, LastSample last) {
  std::vector<Row> rows;
  for (int64_t i = segment.begin; i < segment.begin + segment.length; ++i) {
    rows.push_back({data.rows.column<float>(0)[2 * i], data.rows.column<int64_t>(1)[i], true});
  }
  std::vector<std::vector<Row>> samples;
  std::vector<Row> rest;
  for (const Row& row : rows) {
    rest.push_back(row);
    if (static_cast<int64_t>(rest.size()) < length) continue;
    samples.push_back(rest);
    rest.clear();
  }
  if (rest.empty() || last == LastSample::kDrop) return samples;
  if (last == LastSample::kLast) {
    while (static_cast<int64_t>(rest.size()) < length && rest.size() < rows.size()) {
      rest.insert(rest.begin(), rows[rows.size() - rest.size() - 1]);
    }
  }
  while (static_cast<int64_t>(rest.size()) < length) {
    rest.push_back(rest.back());
    rest.back().mask = false;
  }
  samples.push_back(rest);
  return samples;
}

TEST(SequenceSamples, AgreesWithANaiveModelOnRandomSegments) {
  Rng rng(1, "sequence_samples_test");
  const Collector collector;
  for (int round = 0; round < 300; ++round) {
    const auto length = static_cast<int64_t>(1 + rng.UniformInt(6));
    const auto last = static_cast<LastSample>(round % 3);
    std::vector<int64_t> lengths;
    for (uint64_t i = rng.UniformInt(5); i > 0; --i) {
      lengths.push_back(static_cast<int64_t>(1 + rng.UniformInt(15)));
    }
    const SegmentBatch data = collector.Collect(lengths);
    SequenceSamples samples(length, last);
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch cut, samples.Cut(data));
    ASSERT_THAT(ValidateSegments(cut), IsOk());
    size_t at = 0;
    for (size_t s = 0; s < data.segments.size(); ++s) {
      const Segment& from = data.segments[s];
      const auto expected = NaiveSamples(data, from, length, last);
      for (size_t n = 0; n < expected.size(); ++n, ++at) {
        ASSERT_LT(at, cut.segments.size());
        const Segment& sample = cut.segments[at];
        const std::vector<Row>& rows = expected[n];
        int64_t real = 0;
        for (int64_t t = 0; t < length; ++t) {
          const int64_t row = sample.begin + t;
          ASSERT_EQ(cut.rows.column<float>(0)[2 * row], rows[t].obs) << round << " " << at;
          ASSERT_EQ(cut.rows.column<float>(0)[2 * row + 1], -rows[t].obs);
          ASSERT_EQ(cut.rows.column<int64_t>(1)[row], rows[t].action);
          ASSERT_EQ(cut.rows.column<uint8_t>(2)[row], rows[t].mask ? 1 : 0);
          if (rows[t].mask) ++real;
        }
        const float next = rows[real - 1].obs + 1;
        const bool at_end = next == static_cast<float>(1000 * from.stream + from.length);
        ASSERT_EQ(cut.final_obs.column<float>(0)[2 * at], next);
        ASSERT_EQ(sample.end, at_end ? from.end : SegmentEnd::kCut);
        ASSERT_EQ(sample.stream, from.stream);
        ASSERT_EQ(static_cast<float>(sample.first_step - from.first_step),
                  rows[0].obs - static_cast<float>(1000 * from.stream));
      }
    }
    ASSERT_EQ(at, cut.segments.size());
    ASSERT_EQ(cut.size(), static_cast<int64_t>(at) * length);
  }
}

TEST(SequenceSamples, AllocatesOnlyTheListOfSegmentsWhileSizesRepeat) {
  SequenceSamples samples(4, LastSample::kNullPadding);
  const SegmentBatch data = Collector().Collect({7, 2, 16, 5});
  int64_t before = 0;
  for (int i = 0; i < 12; ++i) {
    if (i == 2) before = AllocationCount();
    const bool ok = samples.Cut(data).ok();
    ASSERT_TRUE(ok);
  }
  // The list of segments, and the reference counts of two batches.
  EXPECT_EQ(AllocationCount() - before, 10 * 3);
}

TEST(SequenceSamples, RefusesSegmentsThatDoNotFitAndRowsWithAMask) {
  SequenceSamples samples(3, LastSample::kLast);
  SegmentBatch data = Collector().Collect({7, 2});
  DING_ASSERT_OK_AND_ASSIGN(SegmentBatch cut, samples.Cut(data));
  EXPECT_THAT(samples.Cut(cut), IsInvalid("'mask'"));
  data.segments[1].begin = 6;
  EXPECT_THAT(samples.Cut(data), IsInvalid("covers 2 rows"));
  data.segments[1].begin = 7;
  EXPECT_THAT(samples.Cut(data), IsOk()) << "after an error it goes on";
}

}  // namespace
}  // namespace ding
