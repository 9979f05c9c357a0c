// What the public functions of this package do with sizes, indices and steps that nobody should
// give them. Run it with AddressSanitizer and UndefinedBehaviorSanitizer, too.
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/extreme_numbers.h"
#include "ding_worker/data/goal_fields.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/sequence_samples.h"
#include "ding_worker/data/shuffled_epochs.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

SpecPtr RowSpec() { return MakeSpec({Box("obs", {3}), Discrete("action", 5)}).value(); }

Batch Rows(const SpecPtr& spec, int64_t rows) {
  return BatchBuilder::Create(spec, rows).value().Seal(rows);
}

SegmentBatch OneSegment(Segment segment) {
  SegmentBatch data;
  data.rows = Rows(RowSpec(), 4);
  data.final_obs = Rows(MakeSpec({Box("obs", {3})}).value(), 1);
  data.segments = {segment};
  return data;
}

TEST(DataMisuse, Blocks_ImpossibleSizesOrNoSpec_AreRefused) {
  BlockPool pool(RowSpec());
  {
    ASSERT_THAT(pool.Allocate(4), IsOk());
  }  // The pool has a free block, which must not be given out for these.
  for (const int64_t rows : {int64_t{-1}, kMin}) {
    EXPECT_THAT(BatchBuilder::Create(RowSpec(), rows), IsInvalid());
    EXPECT_THAT(pool.Allocate(rows), IsInvalid());
  }
  EXPECT_THAT(pool.Allocate(kMax), IsResourceExhausted());
  EXPECT_THAT(BatchBuilder::Create(nullptr, 1), IsInvalid("without a spec"));
  EXPECT_THAT(BlockPool(nullptr).Allocate(1), IsInvalid());
}

TEST(DataMisuse, Batch_TensorThatDoesNotExist_Throws) {
  const Batch batch = Rows(RowSpec(), 4);
  for (const int index : {-1, 2, 5, std::numeric_limits<int>::max()}) {
    EXPECT_THROW(batch.tensor(index), std::invalid_argument) << index;
    EXPECT_THROW(batch.column<float>(index), std::invalid_argument) << index;
  }
}

TEST(DataMisuse, Spec_FieldThatDoesNotExist_Throws) {
  const SpecPtr spec = RowSpec();
  for (const int index :
       {-1, 2, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    EXPECT_THROW((void)spec->field(index), std::invalid_argument) << index;
    EXPECT_THROW((void)spec->row_bytes(index), std::invalid_argument) << index;
    EXPECT_THROW((void)spec->dtype(index), std::invalid_argument) << index;
    EXPECT_THROW((void)Spec().field(index), std::invalid_argument) << index;
  }
}

TEST(DataMisuse, CategoryCount_ElementOrBoundThatDoesNotExist_Throws) {
  FieldSpec field = MultiDiscrete("action", {3, 2});
  for (const int64_t element : {int64_t{-1}, int64_t{2}, kMin, kMax}) {
    EXPECT_THROW((void)field.CategoryCount(element), std::invalid_argument) << element;
  }
  for (const double bound : {-1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    field.high = {bound};
    EXPECT_THROW((void)field.CategoryCount(0), std::invalid_argument) << bound;
  }
}

template <typename View>
void ExpectThatRowsOutsideThrow(const View& view, int64_t rows) {
  for (const int64_t row : {int64_t{-1}, rows, kMin, kMax}) {
    EXPECT_THROW((void)view.row(row), std::invalid_argument) << row;
    EXPECT_THROW((void)view.Slice(row, 1), std::invalid_argument) << row;
  }
  EXPECT_THROW((void)view.Slice(0, -1), std::invalid_argument);
  EXPECT_THROW((void)view.Slice(1, rows), std::invalid_argument);
  EXPECT_THROW((void)view.Slice(kMax, kMax), std::invalid_argument);
  EXPECT_THROW((void)view.Slice(kMin, kMin), std::invalid_argument);
  for (const int index : {-1, 2, std::numeric_limits<int>::max()}) {
    EXPECT_THROW((void)view.raw_column(index), std::invalid_argument) << index;
    EXPECT_THROW((void)view.template column<float>(index), std::invalid_argument) << index;
  }
}

TEST(DataMisuse, Views_RowsAndFieldsOutsideOfThem_Throw) {
  const BatchBuilder builder = BatchBuilder::Create(RowSpec(), 4).value();
  ExpectThatRowsOutsideThrow(builder.view(), 4);
  ExpectThatRowsOutsideThrow(ColumnsView(builder.view()).Slice(1, 2), 2);
  ExpectThatRowsOutsideThrow(ColumnsView(), 0);
  ExpectThatRowsOutsideThrow(MutableColumnsView(), 0);
  for (const int index : {-1, 2, std::numeric_limits<int>::max()}) {
    EXPECT_THROW((void)builder.view().row(0).raw_field(index), std::invalid_argument);
    EXPECT_THROW((void)RowView(builder.view().row(0)).raw_field(index), std::invalid_argument);
    EXPECT_THROW((void)RowView(builder.view().row(0)).scalar<float>(index), std::invalid_argument);
  }
}

TEST(DataMisuse, Fields_OfAnotherLayout_Throw) {
  const BatchBuilder builder = BatchBuilder::Create(RowSpec(), 4).value();
  const Spec action = Spec::Create({Discrete("renamed", 5)}).value();
  EXPECT_EQ(builder.view().Fields(&action, 1).rows(), 4);
  for (const int first : {-1, 0, 2, std::numeric_limits<int>::max()}) {
    EXPECT_THROW((void)builder.view().Fields(&action, first), std::invalid_argument) << first;
    EXPECT_THROW((void)ColumnsView(builder.view()).Fields(&action, first), std::invalid_argument);
  }
  EXPECT_THROW((void)builder.view().Fields(nullptr, 0), std::invalid_argument);
}

TEST(DataMisuseDeathTest, Batch_RowsOutsideOfIt_EndTheProgramWithASentence) {
  const Batch batch = Rows(RowSpec(), 4);
  EXPECT_DEATH(batch.Slice(1, kMax), "slice of 9223372036854775807 rows from row 1 of 4 rows");
  EXPECT_DEATH(batch.Slice(kMax, kMax), "slice of");
  EXPECT_DEATH(batch.Slice(kMin, kMin), "slice of");
  EXPECT_DEATH(batch.Slice(0, -1), "slice of");
  EXPECT_DEATH(batch.AsSequences(0), "sequences of 0");
  EXPECT_DEATH(batch.AsSequences(kMin), "4 rows as sequences");
}

TEST(DataMisuseDeathTest, Copies_RowsOrFieldsThatDoNotFit_EndTheProgramWithASentence) {
  const Batch from = Rows(RowSpec(), 4);
  const BatchBuilder to = BatchBuilder::Create(RowSpec(), 8).value();
  EXPECT_DEATH(CopyRows(from.view(), to.view(), -1), "to row -1 of");
  EXPECT_DEATH(CopyRows(from.view(), to.view(), kMax), "copy of 2 fields and 4 rows to row");
  EXPECT_DEATH(CopyRows(from.view(), to.view(), 5), "of 8 rows");
  EXPECT_DEATH(GatherRows(from.view(), {0, 4}, to.view(), 0), "copy of row 4 of 4");
  EXPECT_DEATH(GatherRows(from.view(), {kMin}, to.view(), 0), "copy of row");
  const BatchBuilder narrow =
      BatchBuilder::Create(MakeSpec({Box("obs", {1}), Discrete("action", 5)}).value(), 8).value();
  EXPECT_DEATH(CopyRows(from.view(), narrow.view(), 0), "copy of field float32\\[3\\]");
}

TEST(DataMisuseDeathTest, Builder_SealedTwiceOrTooFar_EndsTheProgramWithASentence) {
  BatchBuilder builder = BatchBuilder::Create(RowSpec(), 2).value();
  // NOLINTBEGIN(bugprone-use-after-move): the test is about the second call.
  EXPECT_DEATH((void)std::move(builder).Seal(3), "sealing 3 of 2 rows");
  EXPECT_DEATH((void)std::move(builder).Seal(kMin), "sealing");
  (void)std::move(builder).Seal(2);
  EXPECT_DEATH((void)std::move(builder).Seal(2), "sealed twice");
  // NOLINTEND(bugprone-use-after-move)
}

TEST(DataMisuse, Spec_SizesBeyond64Bits_AreRefused) {
  const int64_t wide = int64_t{1} << 40;
  for (const Shape& shape : {Shape{wide, wide}, Shape{kMax, kMax}, Shape{kMin, kMin}, Shape{kMin},
                             Shape{-1, kMax, kMax}}) {
    EXPECT_THAT(Spec::Create({Box("obs", shape)}), IsInvalid()) << ShapeString(shape);
    // Neither may overflow, whatever it returns.
    (void)Box("obs", shape).row_bytes();
    (void)NumElements(shape);
  }
  EXPECT_THAT(Spec::Create({MultiDiscrete("action", {kMin, 2})}), IsInvalid());
  EXPECT_THAT(Spec::Create({Discrete("action", kMin)}), IsInvalid());
  EXPECT_EQ(NumElements(Shape{kMax, kMax, 0}), 0);
}

TEST(DataMisuseDeathTest, Tensor_ImpossibleShape_EndsTheProgramWithASentence) {
  EXPECT_DEATH(Tensor::Zeros(DType::kFloat32, {-1}), "no tensor can be float32\\[-1\\]");
  EXPECT_DEATH(Tensor::Zeros(DType::kFloat64, {kMax, 2}), "no tensor can be");
  EXPECT_DEATH(Tensor::FromSpan<float>({kMin}, {}), "no tensor can be");
}

TEST(DataMisuse, Segments_LengthsAndStepsThatOverflow_AreRefused) {
  const std::vector<Segment> wrong = {
      {0, 0, 0, kMax, SegmentEnd::kCut},        {0, 0, 0, kMin, SegmentEnd::kCut},
      {0, 0, kMax, 4, SegmentEnd::kCut},        {0, 0, kMin, 4, SegmentEnd::kCut},
      {0, kMax, 0, 4, SegmentEnd::kCut},        {0, kMax - 3, 0, 4, SegmentEnd::kCut},
      {0, -1, 0, 4, SegmentEnd::kCut},          {0, kMin, 0, 4, SegmentEnd::kCut},
      {0, 0, 0, 4, static_cast<SegmentEnd>(3)},
  };
  for (const Segment& segment : wrong) {
    EXPECT_THAT(ValidateSegments(OneSegment(segment)), IsInvalid());
    EXPECT_THAT(SequenceSamples(2, LastSample::kLast).Cut(OneSegment(segment)), IsInvalid());
  }
  EXPECT_THAT(ValidateSegments(OneSegment({0, kMax - 4, 0, 4, SegmentEnd::kCut})), IsOk());
  SegmentBatch sum = OneSegment({0, 0, 0, 3, SegmentEnd::kCut});
  sum.segments.push_back({0, 3, 3, kMax, SegmentEnd::kCut});
  sum.segments.push_back({0, 3, kMin + 2, kMax, SegmentEnd::kCut});
  EXPECT_THAT(ValidateSegments(sum), IsInvalid("segment 1"));
}

TEST(DataMisuseDeathTest, EncodedSegments_StepsThatOverflow_EndTheProgramWithASentence) {
  EXPECT_DEATH(EncodedSegments(OneSegment({0, kMax, 0, 4, SegmentEnd::kCut})), "from step");
}

TEST(DataMisuse, SequenceSamples_ImpossibleLength_IsRefused) {
  const SegmentBatch data = OneSegment({0, 0, 0, 4, SegmentEnd::kCut});
  for (const int64_t length : {int64_t{0}, int64_t{-1}, kMin, kMax, int64_t{1} << 40}) {
    EXPECT_THAT(SequenceSamples(length, LastSample::kNullPadding).Cut(data), IsInvalid()) << length;
  }
}

TEST(DataMisuse, Items_RowsThatOverflow_AreRefused) {
  const SpecPtr spec = MakeSpec({Scalar("chunk", DType::kInt64), Scalar("row", DType::kInt64),
                                 Scalar("length", DType::kInt64)})
                           .value();
  for (const auto& [row, length] : std::vector<std::pair<int64_t, int64_t>>{
           {kMax, 1}, {1, kMax}, {kMin, 1}, {0, kMin}, {kMax, kMax}}) {
    BatchBuilder item = BatchBuilder::Create(spec, 1).value();
    item.column<int64_t>(0)[0] = 7;
    item.column<int64_t>(1)[0] = row;
    item.column<int64_t>(2)[0] = length;
    EXPECT_THAT(MakeItems(std::move(item).Seal(1)), IsInvalid()) << row << " " << length;
  }
}

TEST(DataMisuse, ShuffledEpochs_BatchOfAnySize_HasAtMostAllRows) {
  for (const int64_t size : {int64_t{0}, int64_t{-1}, kMin}) {
    EXPECT_THAT(ShuffledEpochs::Create(OnePart(Rows(RowSpec(), 4)), size, 1), IsInvalid());
  }
  DING_ASSERT_OK_AND_ASSIGN(const auto epochs,
                            ShuffledEpochs::Create(OnePart(Rows(RowSpec(), 4)), kMax, 1));
  epochs->SkipTo(kMax);
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, epochs->Next());
  EXPECT_EQ(batch.rows(), 4);
}

TEST(DataMisuse, SavedNumbers_NearTheEndsOfTheType_AreRefusedOrWork) {
  DING_ASSERT_OK_AND_ASSIGN(const auto saver,
                            ShuffledEpochs::Create(OnePart(Rows(RowSpec(), 4)), 3, 1));
  StateDict saved;
  ASSERT_THAT(saver->SaveState(&saved), IsOk());
  ForEachExtremeNumber(saved, [](StateDict* damaged) {
    DING_ASSERT_OK_AND_ASSIGN(const auto epochs,
                              ShuffledEpochs::Create(OnePart(Rows(RowSpec(), 4)), 3, 1));
    EXPECT_THAT(epochs->LoadState(damaged), IsInvalid());
    for (int i = 0; i < 3; ++i) EXPECT_THAT(epochs->Next(), IsOk());
  });
  StateDict counts;
  ASSERT_THAT(counts.WriteSpan<int64_t>("n", {0, kMaxSavedCount}), IsOk());
  std::vector<int64_t> read(2);
  EXPECT_THAT(counts.ReadCounts("n", absl::MakeSpan(read)), IsOk());
  EXPECT_THAT(counts.ReadCounts("n", absl::MakeSpan(read), /*least=*/1),
              IsInvalid("'n' is 0, expected 1 to"));
  EXPECT_THAT(counts.ReadCount("n"), IsInvalid());
}

TEST(DataMisuseDeathTest, Statistics_ImpossibleSizes_EndTheProgramWithASentence) {
  EXPECT_DEATH(RunningNormalizer(0, 1), "width 0");
  EXPECT_DEATH(RunningNormalizer(kMin, 1), "width -9223372036854775808");
  EXPECT_DEATH(RunningNormalizer(1, std::numeric_limits<double>::quiet_NaN()), "clip nan");
  EXPECT_DEATH((void)RunningNormalizer(2, 1).Variance(2), "column 2 of 2");
  EXPECT_DEATH((void)RunningNormalizer(2, 1).Variance(kMin), "column");
  std::vector<float> reward(4, 1);
  RewardScaler scaler(0.9);
  EXPECT_DEATH(scaler.Scale({{0, 0, 0, kMax, SegmentEnd::kCut}}, absl::MakeSpan(reward)),
               "of 4 rewards");
  EXPECT_DEATH(scaler.Scale({{0, 0, kMin, 4, SegmentEnd::kCut}}, absl::MakeSpan(reward)),
               "of 4 rewards");
  EXPECT_DEATH(GoalDistance({1, 2, 3}, {1}), "a goal of 3 numbers, compared with one of 1");
}

TEST(DataMisuse, SavedStatistics_CountNearTheEndOfTheType_IsRefused) {
  StateDict state;
  ASSERT_THAT(state.WriteInt("count", kMax), IsOk());
  ASSERT_THAT(state.WriteSpan<double>("mean", {0.0}), IsOk());
  ASSERT_THAT(state.WriteSpan<double>("sum_of_squares", {0.0}), IsOk());
  RunningNormalizer normalizer(1, 10);
  EXPECT_THAT(normalizer.LoadState(&state), IsInvalid("expected a count of 0 to"));
}

}  // namespace
}  // namespace ding
