#include "ding_worker/adapter/merge.h"

#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/adapter/testing/rows.h"
#include "ding_worker/base/fuzz_testing.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;
using testing::SizeIs;

// Rows with their number i and the values 2 i and 2 i + 1.
Batch Rows(int64_t rows) {
  const SpecPtr spec = MakeSpec({Scalar("row", DType::kInt64), Box("twice", {2})}).value();
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (int64_t i = 0; i < rows; ++i) {
    builder.column<int64_t>(0)[static_cast<size_t>(i)] = i;
    for (int64_t j = 0; j < 2; ++j) {
      builder.column<float>(1)[static_cast<size_t>(2 * i + j)] = static_cast<float>(2 * i + j);
    }
  }
  return std::move(builder).Seal(rows);
}

int64_t UpTo(Rng* rng, int64_t limit) {
  return static_cast<int64_t>(rng->UniformInt(static_cast<uint64_t>(limit) + 1));
}

TEST(MergeDemandsTest, AddsRowsAndTakesTheFewestBatches) {
  Fuzz(2000, [](Mutator* mutator) {
    Rng* const rng = mutator->rng();
    std::vector<LearnerDemand> demands(1 + rng->UniformInt(6));
    int64_t rows = 0;
    int32_t batches = std::numeric_limits<int32_t>::max();
    for (LearnerDemand& demand : demands) {
      demand.set_task_id(absl::StrCat("task_", rng->UniformInt(3)));
      demand.set_batch_size(UpTo(rng, int64_t{1} << 22));
      demand.set_batches(static_cast<int32_t>(UpTo(rng, 9)));
      demand.set_train_iter(UpTo(rng, 100));
      rows += demand.batch_size();
      batches = std::min(batches, demand.batches());
    }
    const LearnerDemand merged = MergeDemands(demands);
    EXPECT_EQ(merged.batch_size(), rows);
    EXPECT_EQ(merged.batches(), batches);
    EXPECT_EQ(merged.task_id(), demands.front().task_id());
    EXPECT_EQ(merged.train_iter(), demands.front().train_iter());
  });
}

TEST(SplitItemsTest, EachLearnerGetsItsRowsInOrder) {
  Fuzz(500, [](Mutator* mutator) {
    Rng* const rng = mutator->rng();
    std::vector<int64_t> wanted(1 + rng->UniformInt(6));
    for (int64_t& rows : wanted) rows = UpTo(rng, 5);  // Some learners demand no rows.
    const int64_t total = std::accumulate(wanted.begin(), wanted.end(), int64_t{0});
    const Batch batch = Rows(total);
    DING_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> parts,
                              SplitItems(EncodedBatch(batch).ToString(), wanted));
    ASSERT_THAT(parts, SizeIs(wanted.size()));
    std::vector<int64_t> rows;
    std::vector<float> values;
    for (size_t i = 0; i < parts.size(); ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const Batch part, DecodeBatch(parts[i]));
      EXPECT_EQ(part.rows(), wanted[i]);
      const absl::Span<const int64_t> some_rows = part.column<int64_t>("row");
      rows.insert(rows.end(), some_rows.begin(), some_rows.end());
      const absl::Span<const float> some_values = part.column<float>("twice");
      values.insert(values.end(), some_values.begin(), some_values.end());
    }
    EXPECT_THAT(rows, ElementsAreArray(batch.column<int64_t>("row")));
    EXPECT_THAT(values, ElementsAreArray(batch.column<float>("twice")));
  });
}

TEST(SplitItemsTest, AWrongNumberOfRowsIsRefused) {
  const std::string items = EncodedBatch(Rows(5)).ToString();
  for (const std::vector<int64_t>& wanted :
       std::vector<std::vector<int64_t>>{{2, 2}, {3, 3}, {0}, {5, 1}}) {
    EXPECT_THAT(SplitItems(items, wanted),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a batch of 5 rows")));
  }
}

// A round may have more or fewer rows than were demanded.
TEST(SplitRoundTest, GivesEachLearnerAsManyRowsAsTheOthersOrOneMore) {
  DING_ASSERT_OK_AND_ASSIGN(const auto parts, SplitRound(EncodedRows(0, 7), 3));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_THAT(RowsIn(parts[0]), Optional(ElementsAre(0, 1, 2)));
  EXPECT_THAT(RowsIn(parts[1]), Optional(ElementsAre(3, 4)));
  EXPECT_THAT(RowsIn(parts[2]), Optional(ElementsAre(5, 6)));
  DING_ASSERT_OK_AND_ASSIGN(const auto one, SplitRound(EncodedRows(0, 1), 2));
  EXPECT_THAT(RowsIn(one[1]), Optional(IsEmpty()));
  EXPECT_THAT(SplitRound("no batch", 2), Not(IsOk()));
}

TEST(SplitItemsFuzz, MutatedBytesAreSplitOrRefused) {
  const std::string good = EncodedBatch(Rows(6)).ToString();
  int split = 0;
  Fuzz(5000, [&](Mutator* mutator) {
    const absl::StatusOr<std::vector<std::string>> parts =
        SplitItems(mutator->Mutate(good), {1, 2, 3});
    if (!parts.ok()) return;
    ++split;
    ASSERT_THAT(*parts, SizeIs(3));
    for (size_t i = 0; i < parts->size(); ++i) {
      DING_ASSERT_OK_AND_ASSIGN(const Batch part, DecodeBatch((*parts)[i]));
      EXPECT_EQ(part.rows(), static_cast<int64_t>(i) + 1);
    }
  });
  EXPECT_GT(split, 0);
}

// The contract (section 13) says: lists are concatenated, all other fields are those of the first
// report.
TEST(MergeInfosTest, EqualsAnElementByElementMerge) {
  Fuzz(2000, [](Mutator* mutator) {
    Rng* const rng = mutator->rng();
    std::vector<LearnerInfo> infos(1 + rng->UniformInt(5));
    const int64_t step = UpTo(rng, 1000);
    const bool done = mutator->Coin();
    std::vector<float> priorities;
    std::vector<int64_t> ids;
    std::vector<int64_t> places;
    for (LearnerInfo& info : infos) {
      info.set_learner_step(step);
      info.set_learner_done(done);
      Setting* const value = info.add_value();
      value->set_name(mutator->Coin() ? "loss" : "q");
      value->set_value(rng->Uniform());
      for (int64_t rows = UpTo(rng, 4); rows > 0; --rows) {
        priorities.push_back(static_cast<float>(rng->Uniform()));
        ids.push_back(UpTo(rng, 1 << 20));
        places.push_back(UpTo(rng, 1 << 20));
        info.add_priority(priorities.back());
        info.add_replay_unique_id(ids.back());
        info.add_replay_buffer_idx(places.back());
      }
    }
    DING_ASSERT_OK_AND_ASSIGN(const LearnerInfo merged, MergeInfos(infos));
    EXPECT_EQ(merged.learner_step(), step);
    EXPECT_EQ(merged.learner_done(), done);
    EXPECT_THAT(merged.priority(), ElementsAreArray(priorities));
    EXPECT_THAT(merged.replay_unique_id(), ElementsAreArray(ids));
    EXPECT_THAT(merged.replay_buffer_idx(), ElementsAreArray(places));
    ASSERT_EQ(merged.value_size(), 1) << "only the values of the first learner are kept";
    EXPECT_EQ(merged.value(0).name(), infos.front().value(0).name());
    EXPECT_EQ(merged.value(0).value(), infos.front().value(0).value());

    LearnerInfo* const other = &infos[rng->UniformInt(infos.size())];
    mutator->Coin() ? other->set_learner_step(step + 1) : other->set_learner_done(!done);
    EXPECT_EQ(MergeInfos(infos).ok(), infos.size() == 1) << "the learners are at different steps";
  });
}

TEST(MergeResourcesTest, AddsResources) {
  EXPECT_EQ(MergeResources({}).gpus(), 0);
  Fuzz(500, [](Mutator* mutator) {
    std::vector<Resources> all(mutator->rng()->UniformInt(6));
    double cpus = 0;
    int64_t bytes = 0;
    int32_t gpus = 0;
    for (Resources& resources : all) {
      resources.set_cpus(static_cast<double>(UpTo(mutator->rng(), 64)));
      resources.set_memory_bytes(UpTo(mutator->rng(), int64_t{1} << 50));
      resources.set_gpus(static_cast<int32_t>(UpTo(mutator->rng(), 8)));
      cpus += resources.cpus();
      bytes += resources.memory_bytes();
      gpus += resources.gpus();
    }
    const Resources merged = MergeResources(all);
    EXPECT_EQ(merged.cpus(), cpus);
    EXPECT_EQ(merged.memory_bytes(), bytes);
    EXPECT_EQ(merged.gpus(), gpus);
  });
}

}  // namespace
}  // namespace ding
