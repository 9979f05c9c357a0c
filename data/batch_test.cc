#include "ding_worker/data/batch.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/columns.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

SpecPtr TestSpec() {
  return MakeSpec({Box("obs", {3}), Scalar("done", DType::kBool), Discrete("action", 5)}).value();
}

// Fills row r with obs [r, r, r], done r % 2, action r % 5.
void Number(const MutableColumnsView& view, int64_t first) {
  for (int64_t row = 0; row < view.rows(); ++row) {
    for (float& x : view.row(row).field<float>(0)) x = static_cast<float>(first + row);
    view.row(row).field<uint8_t>(1)[0] = (first + row) % 2;
    view.row(row).field<int64_t>(2)[0] = (first + row) % 5;
  }
}

Batch MakeBatch(int64_t rows, int64_t first = 0) {
  BatchBuilder builder = BatchBuilder::Create(TestSpec(), rows).value();
  Number(builder.view(), first);
  return std::move(builder).Seal(rows);
}

TEST(Batch, IsEmptyByDefault) {
  const Batch batch;
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.spec().size(), 0);
  EXPECT_EQ(batch.view().rows(), 0);
}

TEST(Batch, ColumnsAreAlignedAndDoNotOverlap) {
  for (const int64_t rows : {1, 2, 3, 63, 64, 65}) {
    const Batch batch = MakeBatch(rows);
    for (int i = 0; i < batch.spec().size(); ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.view().raw_column(i)) % 64, 0u);
    }
    EXPECT_EQ(batch.column<float>(0).size(), static_cast<size_t>(3 * rows));
    for (int64_t row = 0; row < rows; ++row) {
      EXPECT_THAT(batch.view().row(row).field<float>(0), Each(static_cast<float>(row)));
      EXPECT_EQ(batch.column<uint8_t>(1)[row], row % 2);
      EXPECT_EQ(batch.column<int64_t>(2)[row], row % 5);
    }
  }
}

TEST(Batch, FindsColumnsByName) {
  const Batch batch = MakeBatch(3);
  EXPECT_THAT(batch.column<int64_t>("action"), ElementsAre(0, 1, 2));
  EXPECT_THROW(batch.column<float>("reward"), std::invalid_argument);
}

TEST(Batch, SlicesShareTheBlockAndKeepItAlive) {
  Batch slice;
  const std::byte* column;
  {
    const Batch batch = MakeBatch(10);
    column = batch.view().raw_column(0);
    slice = batch.Slice(2, 5).Slice(1, 3);
  }
  EXPECT_EQ(slice.rows(), 3);
  EXPECT_EQ(slice.view().raw_column(0), column + 3 * 12);
  EXPECT_THAT(slice.column<int64_t>(2), ElementsAre(3, 4, 0));
  EXPECT_EQ(slice.Slice(3, 0).rows(), 0);
}

TEST(BatchDeathTest, ASliceOutOfRangeEndsTheProgram) {
  const Batch batch = MakeBatch(4);
  EXPECT_DEATH(batch.Slice(2, 3), "slice of 3 rows from row 2 of 4 rows");
}

TEST(Batch, ATensorKeepsTheBlockAlive) {
  Tensor tensor;
  {
    const Batch batch = MakeBatch(4);
    tensor = batch.Slice(1, 2).tensor(0);
  }
  EXPECT_EQ(tensor.DebugString(), "float32[2, 3]");
  EXPECT_THAT(tensor.data<float>(), ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST(BatchBuilder, SealsFewerRowsThanItsCapacity) {
  BatchBuilder builder = BatchBuilder::Create(TestSpec(), 8).value();
  Number(builder.view(), 0);
  const Batch batch = std::move(builder).Seal(3);
  EXPECT_EQ(batch.rows(), 3);
  EXPECT_THAT(batch.column<int64_t>(2), ElementsAre(0, 1, 2));
}

void ExpectNoMemoryFor(int64_t rows) {
  EXPECT_THAT(BatchBuilder::Create(TestSpec(), rows), IsResourceExhausted("rows of 21 bytes"));
}

TEST(BatchBuilder, ReturnsAnErrorForASizeThatOverflows) {
  ExpectNoMemoryFor(std::numeric_limits<int64_t>::max());
  ExpectNoMemoryFor(int64_t{1} << 60);
}

// Under a sanitizer a failed allocation ends the program.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(BatchBuilder, ReturnsAnErrorWithoutTheMemory) { ExpectNoMemoryFor(int64_t{1} << 58); }
#endif

TEST(BlockPool, ReusesABlock) {
  BlockPool pool(TestSpec());
  const std::byte* column;
  {
    DING_ASSERT_OK_AND_ASSIGN(BatchBuilder builder, pool.Allocate(10));
    column = builder.view().raw_column(0);
    const Batch batch = std::move(builder).Seal(10);
    EXPECT_EQ(pool.free_blocks(), 0);
  }
  EXPECT_EQ(pool.free_blocks(), 1);
  DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder again, pool.Allocate(7));
  EXPECT_EQ(again.view().raw_column(0), column);
  EXPECT_EQ(pool.free_blocks(), 0);
}

TEST(BlockPool, ADestroyedBuilderReturnsItsBlock) {
  BlockPool pool(TestSpec());
  { ASSERT_THAT(pool.Allocate(10), IsOk()); }
  EXPECT_EQ(pool.free_blocks(), 1);
}

TEST(BlockPool, DoesNotReuseABlockInUse) {
  BlockPool pool(TestSpec());
  BatchBuilder first = pool.Allocate(4).value();
  Number(first.view(), 0);
  const Batch batch = std::move(first).Seal(4);
  Tensor tensor = batch.tensor(2);
  DING_ASSERT_OK_AND_ASSIGN(BatchBuilder second, pool.Allocate(4));
  Number(second.view(), 1000);
  EXPECT_THAT(tensor.data<int64_t>(), ElementsAre(0, 1, 2, 3));
}

TEST(BlockPool, TakesTheSmallestBlockThatFits) {
  BlockPool pool(TestSpec());
  {
    std::vector<BatchBuilder> out;
    for (const int64_t rows : {100, 10, 50}) out.push_back(pool.Allocate(rows).value());
  }
  EXPECT_EQ(pool.free_blocks(), 3);
  const BatchBuilder a = pool.Allocate(20).value();
  EXPECT_EQ(a.capacity_rows(), 50);
  const BatchBuilder b = pool.Allocate(20).value();
  EXPECT_EQ(b.capacity_rows(), 100);
  const BatchBuilder c = pool.Allocate(20).value();
  EXPECT_EQ(c.capacity_rows(), 20);
  EXPECT_EQ(pool.free_blocks(), 1);
}

TEST(BlockPool, KeepsTheLargestBlocksUpToItsBound) {
  BlockPool pool(TestSpec(), /*max_free_blocks=*/2);
  {
    std::vector<BatchBuilder> out;
    for (const int64_t rows : {10, 30, 20, 40}) out.push_back(pool.Allocate(rows).value());
  }
  EXPECT_EQ(pool.free_blocks(), 2);
  const BatchBuilder a = pool.Allocate(1).value();
  EXPECT_EQ(a.capacity_rows(), 30);
  const BatchBuilder b = pool.Allocate(1).value();
  EXPECT_EQ(b.capacity_rows(), 40);
}

TEST(BlockPool, KeepsNoBlocksWithABoundOfZero) {
  BlockPool pool(TestSpec(), 0);
  { ASSERT_THAT(pool.Allocate(10), IsOk()); }
  EXPECT_EQ(pool.free_blocks(), 0);
}

TEST(BlockPool, BlocksOutliveThePool) {
  auto pool = std::make_unique<BlockPool>(TestSpec());
  BatchBuilder builder = pool->Allocate(4).value();
  pool.reset();
  Number(builder.view(), 0);
  const Batch batch = std::move(builder).Seal(4);
  EXPECT_THAT(batch.column<int64_t>(2), ElementsAre(0, 1, 2, 3));
}

// Threads make batches and destroy them in other threads. Each batch must keep its values.
TEST(BlockPool, ThreadsCanShareAPool) {
  BlockPool pool(TestSpec(), 3);
  Mutex mutex;
  std::vector<Batch> shelf;
  const auto work = [&](uint64_t id) {
    Rng rng(1, "batch_test", id);
    for (int round = 0; round < 500; ++round) {
      const auto rows = static_cast<int64_t>(1 + rng.UniformInt(20));
      BatchBuilder builder = pool.Allocate(rows).value();
      const auto mark = static_cast<int64_t>(rng.UniformInt(1000));
      Number(builder.view().Slice(0, rows), mark);
      Batch batch = std::move(builder).Seal(rows);
      {
        MutexLock lock(&mutex);
        if (shelf.size() < 5) {
          shelf.push_back(std::move(batch));
          continue;
        }
        std::swap(batch, shelf[rng.UniformInt(5)]);
      }
      const auto first = static_cast<int64_t>(batch.column<float>(0)[0]);
      for (int64_t row = 0; row < batch.rows(); ++row) {
        ASSERT_THAT(batch.view().row(row).field<float>(0), Each(static_cast<float>(first + row)));
        ASSERT_EQ(batch.column<int64_t>(2)[row], (first + row) % 5);
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t id = 0; id < 4; ++id) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
  shelf.clear();
  EXPECT_LE(pool.free_blocks(), 3);
}

TEST(GatherRows, CopiesTheRequestedRowsInOrder) {
  const Batch from = MakeBatch(10);
  BatchBuilder to = BatchBuilder::Create(TestSpec(), 6).value();
  GatherRows(from.view(), {7, 0, 7, 9}, to.view(), 1);
  const Batch got = std::move(to).Seal(5).Slice(1, 4);
  EXPECT_THAT(got.column<float>(0), ElementsAre(7, 7, 7, 0, 0, 0, 7, 7, 7, 9, 9, 9));
  EXPECT_THAT(got.column<uint8_t>(1), ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(got.column<int64_t>(2), ElementsAre(2, 0, 2, 4));
}

// Tests row widths that are copied by one move, and other widths.
TEST(GatherRows, WorksForEveryWidth) {
  for (const int64_t width : {1, 2, 3, 4, 5, 7, 8, 16, 17, 64}) {
    FieldSpec field = Scalar("bytes", DType::kUint8);
    field.shape = {width};
    const SpecPtr spec = MakeSpec({field}).value();
    BatchBuilder from = BatchBuilder::Create(spec, 9).value();
    for (size_t i = 0; i < from.column<uint8_t>(0).size(); ++i) {
      from.column<uint8_t>(0)[i] = static_cast<uint8_t>(i);
    }
    const Batch batch = std::move(from).Seal(9);
    BatchBuilder to = BatchBuilder::Create(spec, 3).value();
    const std::vector<int64_t> rows = {8, 2, 5};
    GatherRows(batch.view().Slice(0, 9), rows, to.view(), 0);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        ASSERT_EQ(to.column<uint8_t>(0)[i * width + j], static_cast<uint8_t>(rows[i] * width + j))
            << "width " << width;
      }
    }
  }
}

TEST(CopyRows, CopiesRowsToTheRequestedPlace) {
  const Batch from = MakeBatch(3, 4);
  // The target may have further fields after those of the source.
  const SpecPtr spec = TestSpec();
  std::vector<FieldSpec> fields(spec->fields().begin(), spec->fields().end());
  fields.push_back(Scalar("reward", DType::kFloat32));
  BatchBuilder to = BatchBuilder::Create(MakeSpec(fields).value(), 5).value();
  CopyRows(from.view(), to.view(), 2);
  const Batch got = std::move(to).Seal(5).Slice(2, 3);
  EXPECT_THAT(got.column<int64_t>(2), ElementsAre(4, 0, 1));
  EXPECT_THAT(got.column<float>(0), ElementsAre(4, 4, 4, 5, 5, 5, 6, 6, 6));
}

TEST(CopyRowsDeathTest, ACopyBeyondTheEndEndsTheProgram) {
  const Batch from = MakeBatch(3);
  BatchBuilder to = BatchBuilder::Create(TestSpec(), 4).value();
  EXPECT_DEATH(CopyRows(from.view(), to.view(), 2), "3 rows to row 2 of 3 fields of 4 rows");
}

TEST(GatherColumn, CopiesRowsFromSeveralBlocks) {
  const int64_t wide[] = {1, 2, 3, 4, 5, 6};
  const uint8_t narrow[] = {7, 8};
  const int64_t other[] = {9, 10, 11};
  const auto bytes = [](const auto* values) { return reinterpret_cast<const std::byte*>(values); };
  const std::byte* const first[] = {bytes(wide), bytes(narrow)};
  const std::byte* const second[] = {bytes(other)};
  int64_t rows[9] = {};
  GatherColumn({{first, 1}, {second, 0}, {first, 0}}, 0, 24, reinterpret_cast<std::byte*>(rows));
  EXPECT_THAT(rows, testing::ElementsAre(4, 5, 6, 9, 10, 11, 1, 2, 3));
  uint8_t column[2] = {};
  GatherColumn({{first, 1}, {first, 0}}, 1, 1, reinterpret_cast<std::byte*>(column));
  EXPECT_THAT(column, testing::ElementsAre(8, 7));
}

TEST(BatchTest, RowsCanBeSequencesOfOneLength) {
  const SpecPtr spec = *MakeSpec({Scalar("x", DType::kFloat32)});
  const Batch rows = std::move(*BatchBuilder::Create(spec, 6)).Seal(6);
  EXPECT_EQ(rows.sequence_length(), 1);
  const Batch sequences = rows.AsSequences(3);
  EXPECT_EQ(sequences.sequence_length(), 3);
  EXPECT_EQ(sequences.rows(), 6);
  EXPECT_EQ(sequences.Slice(0, 2).sequence_length(), 1);
  EXPECT_DEATH(rows.AsSequences(4), "6 rows as sequences of 4");
}

class ColumnsTest : public testing::Test {
 protected:
  ColumnsTest()
      : builder_(BatchBuilder::Create(MakeSpec({Box("obs", {2}), Discrete("action", 3),
                                                Scalar("done", DType::kBool)})
                                          .value(),
                                      4)
                     .value()),
        view_(builder_.view()) {
    for (int64_t row = 0; row < 4; ++row) {
      const RowRef ref = view_.row(row);
      ref.field<float>(0)[0] = static_cast<float>(row);
      ref.field<float>(0)[1] = static_cast<float>(10 * row);
      ref.field<int64_t>(1)[0] = row % 3;
      ref.field<uint8_t>(2)[0] = row == 3;
    }
  }

  BatchBuilder builder_;
  MutableColumnsView view_;
};

TEST_F(ColumnsTest, RowsAndColumnsShareTheirElements) {
  EXPECT_THAT(view_.column<float>(0), ElementsAre(0, 0, 1, 10, 2, 20, 3, 30));
  EXPECT_THAT(view_.column<int64_t>(1), ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(view_.column<uint8_t>(2), ElementsAre(0, 0, 0, 1));
  const ColumnsView read_only = view_;
  EXPECT_THAT(read_only.row(2).field<float>(0), ElementsAre(2, 20));
  EXPECT_EQ(read_only.row(2).scalar<int64_t>(1), 2);
}

TEST_F(ColumnsTest, ASliceBeginsAtItsFirstRow) {
  const ColumnsView slice = ColumnsView(view_).Slice(1, 2);
  EXPECT_EQ(slice.rows(), 2);
  EXPECT_THAT(slice.column<float>(0), ElementsAre(1, 10, 2, 20));
  EXPECT_THAT(slice.row(1).field<float>(0), ElementsAre(2, 20));
  const ColumnsView of_slice = slice.Slice(1, 1);
  EXPECT_THAT(of_slice.column<int64_t>(1), ElementsAre(2));
  EXPECT_TRUE(slice.Slice(2, 0).column<float>(0).empty());
  view_.Slice(3, 1).column<int64_t>(1)[0] = 1;
  EXPECT_THAT(view_.column<int64_t>(1), ElementsAre(0, 1, 2, 1));
}

template <typename F>
std::string Thrown(F call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(ColumnsTest, AWrongTypeThrowsAndNamesTheField) {
  const ColumnsView read_only = view_;
  const auto message =
      AllOf(HasSubstr("'action'"), HasSubstr("int64"), HasSubstr("accessed as float32"));
  EXPECT_THAT(Thrown([&] { view_.column<float>(1); }), message);
  EXPECT_THAT(Thrown([&] { read_only.column<float>(1); }), message);
  EXPECT_THAT(Thrown([&] { view_.row(0).field<float>(1); }), message);
  EXPECT_THAT(Thrown([&] { read_only.row(0).field<float>(1); }), message);
  EXPECT_THAT(Thrown([&] { read_only.row(0).scalar<float>(1); }), message);
}

TEST_F(ColumnsTest, AMissingFieldThrows) {
  EXPECT_THAT(Thrown([&] { view_.column<float>(3); }), HasSubstr("no field 3, only 3 fields"));
  EXPECT_THAT(Thrown([&] { view_.row(0).field<float>(-1); }), HasSubstr("no field -1"));
}

}  // namespace
}  // namespace ding
