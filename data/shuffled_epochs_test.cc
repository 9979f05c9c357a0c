#include "ding_worker/data/shuffled_epochs.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Rows that hold their number.
Batch Rows(int64_t rows) {
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec({Scalar("number", DType::kInt64)}), rows);
  for (int64_t i = 0; i < rows; ++i) builder.column<int64_t>(0)[i] = i;
  return std::move(builder).Seal(rows);
}

std::unique_ptr<ShuffledEpochs> Make(int64_t rows, int64_t batch_rows, uint64_t seed = 1) {
  auto epochs = ShuffledEpochs::Create(Rows(rows), batch_rows, seed);
  EXPECT_THAT(epochs, IsOk());
  return *std::move(epochs);
}

std::vector<int64_t> Numbers(ShuffledEpochs* epochs, int batches) {
  std::vector<int64_t> numbers;
  for (int i = 0; i < batches; ++i) {
    const Batch batch = *epochs->Next();
    numbers.insert(numbers.end(), batch.column<int64_t>(0).begin(), batch.column<int64_t>(0).end());
  }
  return numbers;
}

TEST(ShuffledEpochs, AnEpochHasEveryRowOnceInAnOrderOfItsOwn) {
  const auto epochs = Make(10, 4);
  std::vector<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    orders.push_back(Numbers(epochs.get(), 3));
    EXPECT_EQ(epochs->epoch(), epoch);
    std::vector<int64_t> sorted = orders.back();
    std::sort(sorted.begin(), sorted.end());
    EXPECT_THAT(sorted, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    for (int64_t other = 0; other < epoch; ++other) EXPECT_NE(orders[other], orders[epoch]);
  }
}

TEST(ShuffledEpochs, TheOrderIsAFunctionOfTheSeed) {
  EXPECT_EQ(Numbers(Make(10, 4, 7).get(), 7), Numbers(Make(10, 4, 7).get(), 7));
  EXPECT_NE(Numbers(Make(10, 4, 7).get(), 7), Numbers(Make(10, 4, 8).get(), 7));
}

TEST(ShuffledEpochs, ContinuesFromItsSavedState) {
  for (int before = 0; before < 8; ++before) {
    const auto whole = Make(10, 4);
    Numbers(whole.get(), before);
    StateDict state;
    ASSERT_THAT(whole->SaveState(&state), IsOk());
    const auto resumed = Make(10, 4);
    ASSERT_THAT(resumed->LoadState(&state), IsOk());
    EXPECT_EQ(Numbers(whole.get(), 9), Numbers(resumed.get(), 9)) << before;
  }
}

TEST(ShuffledEpochs, SkipsToAnyBatchOfAnyEpoch) {
  const auto in_order = Make(10, 4);
  std::vector<std::vector<int64_t>> batches;
  for (int i = 0; i < 12; ++i) batches.push_back(Numbers(in_order.get(), 1));
  const auto epochs = Make(10, 4);
  for (const int number : {0, 7, 7, 2, 3, 11, 6, 5}) {
    epochs->SkipTo(number);
    EXPECT_EQ(Numbers(epochs.get(), 1), batches[number]) << number;
  }
  EXPECT_EQ(Numbers(epochs.get(), 1), batches[6]) << "goes on from there";
}

TEST(ShuffledEpochs, RefusesAPositionThatDoesNotExist) {
  StateDict state;
  ASSERT_THAT(state.WriteInt("epoch", 0), IsOk());
  ASSERT_THAT(state.WriteInt("next_row", 11), IsOk());
  const auto epochs = Make(10, 4);
  EXPECT_THAT(epochs->LoadState(&state), IsInvalid("row 11 of epoch 0"));
  EXPECT_EQ(Numbers(epochs.get(), 3), Numbers(Make(10, 4).get(), 3));
}

TEST(ShuffledEpochs, BatchesMayBeLargerThanTheRows) {
  EXPECT_EQ(Make(3, 100)->Next()->rows(), 3);
  EXPECT_THAT(ShuffledEpochs::Create(Rows(3), 0, 1), IsInvalid("batches of 0"));
}

}  // namespace
}  // namespace ding
