#include "ding_worker/data/shuffled_epochs.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// Rows that hold their number, from `begin` on.
Batch Rows(int64_t rows, int64_t begin = 0) {
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec({Scalar("number", DType::kInt64)}), rows);
  for (int64_t i = 0; i < rows; ++i) builder.column<int64_t>(0)[i] = begin + i;
  return std::move(builder).Seal(rows);
}

// Parts of rows that are numbered through.
class Parts {
 public:
  explicit Parts(std::vector<int64_t> rows) : rows_(std::move(rows)) {}

  RowParts Make() {
    RowParts parts{Rows(1).spec_ptr(), rows_, {}};
    parts.load = [this](int64_t part) -> absl::StatusOr<Batch> {
      if (++loads_ == failing_load_) return absl::UnavailableError("the disk is away");
      if (part == damaged_) return absl::DataLossError("damaged");
      return Rows(rows_[part], BeginOf(part));
    };
    return parts;
  }

  int64_t BeginOf(int64_t part) const {
    return std::accumulate(rows_.begin(), rows_.begin() + part, int64_t{0});
  }
  int64_t RowsIn(int64_t part) const { return rows_[static_cast<size_t>(part)]; }
  int64_t PartOf(int64_t row) const {
    int64_t part = 0;
    while (row >= BeginOf(part) + rows_[part]) ++part;
    return part;
  }
  int64_t rows() const { return BeginOf(static_cast<int64_t>(rows_.size())); }
  int loads() const { return loads_; }
  void Damage(int64_t part) { damaged_ = part; }
  void FailLoad(int number) { failing_load_ = number; }

 private:
  const std::vector<int64_t> rows_;
  std::atomic<int> loads_{0};
  std::atomic<int64_t> damaged_{-1};
  std::atomic<int> failing_load_{-1};
};

std::unique_ptr<ShuffledEpochs> Make(int64_t rows, int64_t batch_rows, uint64_t seed = 1) {
  auto epochs = ShuffledEpochs::Create(OnePart(Rows(rows)), batch_rows, seed);
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
  EXPECT_THAT(ShuffledEpochs::Create(OnePart(Rows(3)), 0, 1), IsInvalid("batches of 0"));
}

// Cuts rows where all parts that have begun are complete, and returns the parts of each piece. A
// window is one piece, or several if its parts happen to follow each other.
std::vector<std::set<int64_t>> PiecesOf(const Parts& parts, absl::Span<const int64_t> rows) {
  std::vector<std::set<int64_t>> pieces = {{}};
  std::map<int64_t, int64_t> left;
  for (const int64_t row : rows) {
    const int64_t part = parts.PartOf(row);
    if (left.emplace(part, parts.RowsIn(part)).second) pieces.back().insert(part);
    --left[part];
    const auto complete = [](const auto& of_part) { return of_part.second == 0; };
    if (absl::c_all_of(left, complete)) pieces.emplace_back();
  }
  pieces.pop_back();
  return pieces;
}

TEST(ShuffledEpochs, RowsMixWithinWindowsOfWholePartsAndOtherPartsMeetInEachEpoch) {
  Parts parts({3, 4, 3, 4, 3, 4});
  constexpr int64_t kWindow = 7;
  const auto epochs = *ShuffledEpochs::Create(parts.Make(), 7, 1, kWindow);
  std::set<std::set<int64_t>> met;
  for (int64_t epoch = 0; epoch < 30; ++epoch) {
    std::vector<int64_t> rows = Numbers(epochs.get(), 3);
    for (const std::set<int64_t>& piece : PiecesOf(parts, rows)) {
      int64_t size = 0;
      for (const int64_t part : piece) size += parts.RowsIn(part);
      EXPECT_LE(size, kWindow);
      if (piece.size() > 1) met.insert(piece);
    }
    std::sort(rows.begin(), rows.end());
    for (int64_t row = 0; row < parts.rows(); ++row) EXPECT_EQ(rows[row], row);
  }
  // Nine pairs have three rows and four, and three pairs twice three.
  EXPECT_EQ(met.size(), 12u);
}

TEST(ShuffledEpochs, RowsThatFitIntoOneWindowAreLoadedOnceAndShuffledAsAWhole) {
  Parts parts({5, 0, 2, 3});
  const auto epochs = *ShuffledEpochs::Create(parts.Make(), 4, 1, /*window_rows=*/10);
  EXPECT_EQ(Numbers(epochs.get(), 9), Numbers(Make(10, 4).get(), 9));
  EXPECT_EQ(parts.loads(), 3) << "the empty part is not loaded";
}

TEST(ShuffledEpochs, WithWindowsAnyPositionCanBeSkippedToAndResumed) {
  Rng rng(1, "test");
  for (int round = 0; round < 30; ++round) {
    std::vector<int64_t> sizes(1 + rng.UniformInt(7));
    for (int64_t& size : sizes) size = static_cast<int64_t>(rng.UniformInt(6));
    sizes.push_back(1);
    Parts parts(sizes);
    const auto batch_rows = static_cast<int64_t>(1 + rng.UniformInt(9));
    const auto window_rows = static_cast<int64_t>(1 + rng.UniformInt(12));
    const auto create = [&] {
      return *ShuffledEpochs::Create(parts.Make(), batch_rows, 7, window_rows);
    };
    const auto in_order = create();
    std::vector<std::vector<int64_t>> batches;
    std::vector<StateDict> states;
    for (int i = 0; i < 40; ++i) {
      states.emplace_back();
      ASSERT_THAT(in_order->SaveState(&states.back()), IsOk());
      batches.push_back(Numbers(in_order.get(), 1));
    }
    const auto skipping = create();
    for (int i = 0; i < 20; ++i) {
      const auto number = rng.UniformInt(39);
      if (rng.UniformInt(2) == 0) {
        skipping->SkipTo(static_cast<int64_t>(number));
      } else {
        ASSERT_THAT(skipping->LoadState(&states[number]), IsOk());
      }
      EXPECT_EQ(Numbers(skipping.get(), 1), batches[number]);
      EXPECT_EQ(Numbers(skipping.get(), 1), batches[number + 1]);
    }
  }
}

TEST(ShuffledEpochs, AfterAPartThatCannotBeLoadedTheSameBatchIsNext) {
  for (int64_t damaged = 0; damaged < 4; ++damaged) {
    Parts intact({2, 3, 2, 3});
    const auto expected = *ShuffledEpochs::Create(intact.Make(), 3, 1, /*window_rows=*/3);
    Parts parts({2, 3, 2, 3});
    const auto epochs = *ShuffledEpochs::Create(parts.Make(), 3, 1, /*window_rows=*/3);
    parts.Damage(damaged);
    int errors = 0;
    for (int i = 0; i < 12; ++i) {
      absl::StatusOr<Batch> batch = epochs->Next();
      while (!batch.ok()) {
        EXPECT_THAT(batch.status(), StatusIs(absl::StatusCode::kDataLoss, "damaged"));
        if (++errors % 3 == 0) parts.Damage(-1);  // someone repairs it
        batch = epochs->Next();
      }
      const Batch wanted = *expected->Next();
      EXPECT_EQ(batch->column<int64_t>(0), wanted.column<int64_t>(0));
    }
    EXPECT_GE(errors, 3);
  }
}

TEST(ShuffledEpochs, TheNextWindowIsReadAheadAndAgainIfThatFailed) {
  Parts intact({2, 2, 2});
  const auto expected = *ShuffledEpochs::Create(intact.Make(), 2, 1, /*window_rows=*/2);
  for (const int failing : {-1, 2}) {
    Parts parts({2, 2, 2});
    parts.FailLoad(failing);
    const auto epochs = *ShuffledEpochs::Create(parts.Make(), 2, 1, /*window_rows=*/2);
    ASSERT_THAT(epochs->Next(), IsOk());
    for (int tries = 0; parts.loads() < 2 && tries < 1000; ++tries) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    ASSERT_EQ(parts.loads(), 2) << "the first window, and the one behind it";
    expected->SkipTo(1);
    EXPECT_EQ(Numbers(epochs.get(), 4), Numbers(expected.get(), 4));
  }
}

TEST(ShuffledEpochs, APartWithOtherRowsThanItHadIsRefused) {
  RowParts parts{Rows(1).spec_ptr(), {2, 2}, [](int64_t /*part*/) { return Rows(3); }};
  const auto epochs = *ShuffledEpochs::Create(std::move(parts), 3, 1);
  EXPECT_THAT(epochs->Next(), StatusIs(absl::StatusCode::kDataLoss,
                                       testing::HasSubstr("part 0 of the data has 3 rows")));
}

}  // namespace
}  // namespace ding
