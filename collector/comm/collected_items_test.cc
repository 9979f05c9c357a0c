#include "ding_worker/collector/comm/collected_items.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kChunk = 7;

// Segments of these lengths. Row t was collected at train iteration 100 + t.
SegmentBatch Rows(const std::vector<int64_t>& lengths) {
  SegmentBatch data;
  int64_t rows = 0;
  for (const int64_t length : lengths) {
    data.segments.push_back({0, rows, rows, length, SegmentEnd::kTruncated});
    rows += length;
  }
  BatchBuilder builder =
      BatchBuilder::Create(
          MakeSpec({Box("obs", {}), Scalar(kColumnCollectIter, DType::kInt64)}).value(), rows)
          .value();
  for (int64_t t = 0; t < rows; ++t) {
    builder.column<float>(0)[static_cast<size_t>(t)] = 0;
    builder.column<int64_t>(1)[static_cast<size_t>(t)] = 100 + t;
  }
  data.rows = std::move(builder).Seal(rows);
  return data;
}

// The items of `data`, after a check of their other columns.
std::vector<Item> ItemsFor(const SegmentBatch& data, const ItemSequences& sequences) {
  const std::string encoded = EncodeItems(data, kChunk, sequences).value();
  std::vector<Item> items;
  if (encoded.empty()) return items;
  const Batch batch = DecodeBatch(encoded).value();
  EXPECT_EQ(batch.spec().size(), 4);
  for (size_t i = 0; i < static_cast<size_t>(batch.rows()); ++i) {
    items.push_back({batch.column<int64_t>(kColumnChunk)[i], batch.column<int64_t>(kColumnRow)[i],
                     batch.column<int64_t>(kColumnLength)[i]});
    EXPECT_EQ(batch.column<int64_t>(kColumnCollectIter)[i], 100 + items.back().row);
  }
  return items;
}

ItemSequences Sequences(int64_t length, int64_t overlap, bool padding = false,
                        int64_t burn_in = 0) {
  ItemSequences sequences;
  sequences.length = length;
  sequences.overlap = overlap;
  sequences.padding = padding;
  sequences.burn_in = burn_in;
  return sequences;
}

TEST(EncodeItemsTest, AnnouncesEachRowUnlessThereAreSequences) {
  EXPECT_THAT(ItemsFor(Rows({2, 1}), {}),
              ElementsAre(Item{kChunk, 0, 1}, Item{kChunk, 1, 1}, Item{kChunk, 2, 1}));
}

TEST(EncodeItemsTest, SequencesStayWithinTheirSegment) {
  EXPECT_THAT(ItemsFor(Rows({5, 3, 2, 6}), Sequences(3, 0)),
              ElementsAre(Item{kChunk, 0, 3}, Item{kChunk, 5, 3}, Item{kChunk, 10, 3},
                          Item{kChunk, 13, 3}));
  EXPECT_THAT(ItemsFor(Rows({5, 2}), Sequences(3, 2)),
              ElementsAre(Item{kChunk, 0, 3}, Item{kChunk, 1, 3}, Item{kChunk, 2, 3}));
}

TEST(EncodeItemsTest, WithPaddingRemainingRowsBelongToOneMoreItem) {
  EXPECT_THAT(
      ItemsFor(Rows({8, 2}), Sequences(4, 1, /*padding=*/true)),
      ElementsAre(Item{kChunk, 0, 4}, Item{kChunk, 3, 4}, Item{kChunk, 6, 2}, Item{kChunk, 8, 2}));
  EXPECT_THAT(ItemsFor(Rows({7}), Sequences(4, 1, /*padding=*/true)),
              ElementsAre(Item{kChunk, 0, 4}, Item{kChunk, 3, 4}))
      << "row 6 is in the second one";
}

TEST(EncodeItemsTest, LeavesOutItemsOfBurnInAlone) {
  EXPECT_THAT(ItemsFor(Rows({6, 2, 3}), Sequences(4, 0, /*padding=*/true, /*burn_in=*/2)),
              ElementsAre(Item{kChunk, 0, 4}, Item{kChunk, 8, 3}));
}

TEST(EncodeItemsTest, IsEmptyIfAllSegmentsAreTooShort) {
  EXPECT_THAT(ItemsFor(Rows({2, 2}), Sequences(3, 0)), IsEmpty());
}

TEST(EncodeItemsTest, WholeEpisodesAreItemsOfTheirLength) {
  ItemSequences episodes;
  episodes.whole_episodes = true;
  EXPECT_THAT(ItemsFor(Rows({5, 1, 3}), episodes),
              ElementsAre(Item{kChunk, 0, 5}, Item{kChunk, 5, 1}, Item{kChunk, 6, 3}));
  EXPECT_THAT(ItemsFor(Rows({}), episodes), IsEmpty());
  SegmentBatch cut = Rows({5, 2});
  cut.segments[1].end = SegmentEnd::kCut;
  EXPECT_THAT(EncodeItems(cut, kChunk, episodes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("segment 1 of 2, of 2 rows, ends within its episode"),
                             HasSubstr("policy.collect.n_episode"))));
}

// The model looks at every row by itself.
TEST(EncodeItemsTest, EqualsAModel) {
  for (int64_t length = 1; length <= 5; ++length) {
    for (int64_t overlap = 0; overlap < length; ++overlap) {
      for (int64_t rows = 1; rows <= 14; ++rows) {
        for (const bool padding : {false, true}) {
          SCOPED_TRACE(testing::Message() << length << " " << overlap << " " << rows << padding);
          std::vector<Item> expected;
          std::vector<bool> covered(static_cast<size_t>(rows));
          for (int64_t row = 0; row < rows; row += length - overlap) {
            const int64_t count = std::min(length, rows - row);
            if (count < length && (!padding || covered.back())) continue;
            expected.push_back({kChunk, row, count});
            for (int64_t t = row; t < row + count; ++t) covered[static_cast<size_t>(t)] = true;
          }
          EXPECT_THAT(ItemsFor(Rows({rows}), Sequences(length, overlap, padding)),
                      ElementsAreArray(expected));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ding
