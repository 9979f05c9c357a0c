// SequenceReplayBuffer with priorities; sequence_buffer_test has what it does without, too.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/sequence_buffer.h"
#include "ding_worker/replay_buffer/testing/advanced_buffer_testing.h"
#include "ding_worker/replay_buffer/testing/buffer_conformance.h"
#include "ding_worker/replay_buffer/testing/reference_buffer.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using Options = SequenceReplayBuffer::Options;

// Sequences of one row, all with the same priority, are rows.
std::unique_ptr<IBuffer> MakeOfRows(const BufferSettings& settings) {
  Options options;
  options.capacity_rows = settings.capacity_rows;
  options.nstep = settings.nstep;
  options.gamma = settings.gamma;
  options.unroll_len = 1;
  options.priority.emplace();
  options.seed = settings.seed;
  return SequenceReplayBuffer::Create(options).value();
}

INSTANTIATE_TEST_SUITE_P(PrioritizedSequence, BufferConformance,
                         testing::Values(BufferMaker(MakeOfRows)));

std::unique_ptr<SequenceReplayBuffer> Make(const Options& options) {
  return SequenceReplayBuffer::Create(options).value();
}

Options Prioritized(int64_t unroll_len, double alpha = 1, double beta = 0.5,
                    int64_t anneal_step = 0) {
  Options options;
  options.capacity_rows = 64;
  options.unroll_len = unroll_len;
  options.priority = PriorityOptions{alpha, beta, anneal_step};
  return options;
}

// New priorities for the sequences that begin with these rows.
PriorityInfo InfoOf(const std::vector<float>& priority, const std::vector<int64_t>& ids,
                    int64_t capacity = 64) {
  PriorityInfo info = {priority, ids, {}};
  for (const int64_t id : ids) info.replay_buffer_idx.push_back(id % capacity);
  return info;
}

// ------------------------------------------------------------------------------------ the model

// The priority of each sequence that there should be.
class Model {
 public:
  explicit Model(const Options& options) : options_(options), sequences_(options) {
    beta_ = options.priority->beta;
  }

  void Push(const SegmentBatch& data) {
    sequences_.Push(data);
    std::map<int64_t, double> kept;
    for (const std::vector<int64_t>& rows : sequences_.All()) {
      const auto known = priority_.find(rows[0]);
      kept[rows[0]] = known == priority_.end() ? max_priority_ : known->second;
    }
    priority_ = kept;
  }
  void Clear() {
    sequences_.Clear();
    priority_.clear();
    max_priority_ = 1;
  }
  int64_t count() const { return static_cast<int64_t>(priority_.size()); }
  void Update(const PriorityInfo& info) {
    for (size_t i = 0; i < info.priority.size(); ++i) {
      const auto found = priority_.find(info.replay_unique_id[i]);
      if (found == priority_.end() ||
          found->first % options_.capacity_rows != info.replay_buffer_idx[i]) {
        continue;
      }
      found->second = info.priority[i] + 1e-5f;
      max_priority_ = std::max<double>(max_priority_, info.priority[i]);
    }
  }
  // Checks the ids, masks and priorities of a draw from the candidates with the ranks [first, end).
  void CheckDraw(const Batch& batch, int64_t length, int64_t first, int64_t end) {
    ASSERT_EQ(batch.sequence_length(), length);
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [id, priority] : priority_) least = std::min(least, priority);
    const double alpha = options_.priority->alpha;
    const std::vector<int64_t> ids = IdsOf(batch);
    for (int64_t row = 0; row < batch.rows(); ++row) {
      SCOPED_TRACE(absl::StrCat("row ", row));
      const int64_t start = ids[static_cast<size_t>(row / length * length)];
      const auto candidate = priority_.find(start);
      ASSERT_NE(candidate, priority_.end()) << "row " << start << " begins no sequence";
      const int64_t rank = std::distance(priority_.begin(), candidate);
      ASSERT_TRUE(rank >= first && rank < end) << rank;
      const std::vector<int64_t> rows = RowsFrom(start);
      const auto t = static_cast<size_t>(row % length);
      ASSERT_EQ(ids[static_cast<size_t>(row)], rows[std::min(t, rows.size() - 1)]);
      ASSERT_EQ(batch.column<uint8_t>("mask")[row], t < rows.size());
      ASSERT_EQ(batch.column<uint8_t>("burn_in")[row], static_cast<int64_t>(t) < options_.burn_in);
      ASSERT_FLOAT_EQ(batch.column<float>("priority")[row], candidate->second);
      ASSERT_EQ(batch.column<int64_t>("replay_buffer_idx")[row], start % options_.capacity_rows);
      ASSERT_NEAR(batch.column<float>("weight")[row],
                  std::pow(candidate->second / least, -alpha * beta_), 2e-5);
    }
    const PriorityOptions& options = *options_.priority;
    if (options.anneal_step == 0) return;
    beta_ = std::min(1.0, beta_ + (1 - options.beta) / static_cast<double>(options.anneal_step));
  }

 private:
  std::vector<int64_t> RowsFrom(int64_t start) const {
    for (const std::vector<int64_t>& rows : sequences_.All()) {
      if (rows[0] == start) return rows;
    }
    return {};
  }

  const Options options_;
  ReferenceSequences sequences_;
  std::map<int64_t, double> priority_;  // by first row
  double max_priority_ = 1;
  double beta_;
};

Options RandomOptions(uint64_t seed, Rng* rng) {
  Options options;
  options.cross_episodes = seed % 2 == 1;
  options.capacity_rows = static_cast<int64_t>(8 + rng->UniformInt(60));
  options.unroll_len = static_cast<int64_t>(1 + rng->UniformInt(8));
  const auto rows = static_cast<uint64_t>(*options.unroll_len);
  if (rng->UniformInt(2) == 0) options.overlap = static_cast<int64_t>(rng->UniformInt(rows));
  options.padding = rng->UniformInt(2) == 0;
  options.burn_in = static_cast<int64_t>(rng->UniformInt(rows));
  options.priority =
      PriorityOptions{rng->Uniform(), rng->Uniform(), static_cast<int64_t>(rng->UniformInt(30))};
  return options;
}

TEST(PrioritizedSequences, RandomOperationsAgreeWithTheModel) {
  int64_t checked = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Rng rng(seed, "prioritized sequences");
    const Options options = RandomOptions(seed, &rng);
    std::unique_ptr<SequenceReplayBuffer> buffer = Make(options);
    Model model(options);
    TestStreams streams(5);
    for (int step = 0; step < 80; ++step) {
      SCOPED_TRACE(absl::StrCat("operation ", step));
      const uint64_t what = rng.UniformInt(40);
      if (what < 18) {
        const SegmentBatch push =
            RandomPush(&streams, &rng, what == 0 ? options.capacity_rows + 3 : 6);
        model.Push(push);
        ASSERT_THAT(buffer->Push(push, step), IsOk());
      } else if (what == 18) {
        model.Clear();
        buffer->Clear();
      } else if (what < 22) {
        const TensorMap saved = Saved(*buffer);
        buffer = Make(options);
        ASSERT_THAT(LoadFrom(buffer.get(), saved), IsOk());
        ASSERT_TRUE(SameBytes(saved, Saved(*buffer)));
      } else if (const int64_t count = model.count(); count > 0) {
        SampleOptions sample = WithReplacement();
        int64_t length = *options.unroll_len;
        if (what % 2 == 0) {
          length =
              options.burn_in + 1 +
              static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(length - options.burn_in)));
          sample.sequence = length;
        }
        const int64_t first = static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(count)));
        const int64_t end =
            first + 1 + static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(count - first)));
        if (what % 3 == 0) sample.range = AgeRange{first, end};
        DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(6, step, sample));
        model.CheckDraw(batch, length, sample.range ? first : 0, sample.range ? end : count);
        ASSERT_FALSE(testing::Test::HasFailure());
        ++checked;
        // Priorities of first rows; of other rows, which are mostly skipped; and of no row at all.
        std::vector<int64_t> ids;
        std::vector<float> priority;
        for (const int64_t row : {int64_t{0}, length, 2 * length, batch.rows() - 1}) {
          ids.push_back(IdsOf(batch)[static_cast<size_t>(row)]);
          priority.push_back(static_cast<float>(rng.Uniform(0, 4)));
        }
        ids.push_back(ids[0] + options.capacity_rows);
        priority.push_back(50);
        const PriorityInfo info = InfoOf(priority, ids, options.capacity_rows);
        model.Update(info);
        ASSERT_THAT(buffer->Update(info), IsOk());
      }
      ASSERT_EQ(buffer->count(), model.count());
    }
  }
  EXPECT_GT(checked, 1000);
}

// --------------------------------------------------------------------------- draws and priorities

TEST(PrioritizedSequences, AreDrawnInProportionToPriorityToThePowerOfAlpha) {
  constexpr double kAlpha = 0.7;
  Options options = Prioritized(5, kAlpha, /*beta=*/1);
  options.overlap = 0;
  const auto buffer = Make(options);
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 20}, {1, 12}, {2, 4}, {3, 10}}), 0), IsOk());
  const std::vector<int64_t> ids = {0, 5, 10, 15, 20, 25, 36, 41};
  ASSERT_EQ(buffer->count(), static_cast<int64_t>(ids.size()));
  const std::vector<float> priority = {0.1f, 2, 0, 1, 7, 0.5f, 3, 1.5f};
  ASSERT_THAT(buffer->Update(InfoOf(priority, ids)), IsOk());
  std::map<int64_t, double> seen;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0));
    ++seen[IdsOf(batch)[0]];
  }
  double sum = 0;
  for (const float p : priority) sum += std::pow(p + 1e-5, kAlpha);
  double chi_squared = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const double expected = kDraws * std::pow(priority[i] + 1e-5, kAlpha) / sum;
    chi_squared += (seen[ids[i]] - expected) * (seen[ids[i]] - expected) / expected;
  }
  // 7 degrees of freedom: above 40.5 once in 10^6.
  EXPECT_LT(chi_squared, 40.5);
}

TEST(PrioritizedSequences, NewOnesHaveTheLargestPriorityWhenTheyCanBeDrawn) {
  const auto buffer = Make(Prioritized(3));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 4}}), 0), IsOk());
  ASSERT_EQ(buffer->count(), 2);
  ASSERT_THAT(buffer->Update(InfoOf({5, 90, 90}, {0, 2, 77})), IsOk());  // Not of rows 2 and 77.
  ASSERT_THAT(buffer->Push(streams.Make({{0, 1}}), 0), IsOk());
  SampleOptions newest;
  newest.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, newest));
  EXPECT_THAT(IdsOf(batch), ElementsAre(2, 3, 4));
  EXPECT_THAT(FloatsOf(batch, "priority"), Each(5.0f));
  EXPECT_THAT(IntsOf(batch, "replay_buffer_idx"), Each(2));
}

TEST(PrioritizedSequences, WeightsAreOfTheWholeSequence) {
  const auto buffer = Make(Prioritized(2, /*alpha=*/1, /*beta=*/0.5));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 3}}), 0), IsOk());
  ASSERT_THAT(buffer->Update(InfoOf({1, 4}, {0, 1})), IsOk());
  SampleOptions newest;
  newest.newest = 1;
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(1, 0, newest));
  EXPECT_THAT(FloatsOf(batch, "weight"),
              ElementsAre(FloatNear(0.5f, 1e-5f), FloatNear(0.5f, 1e-5f)));
  // A selector of one's own does not draw by priority.
  Options options = Prioritized(2);
  options.selector = std::make_shared<UniformSelector>();
  const auto uniform = Make(options);
  ASSERT_THAT(LoadFrom(uniform.get(), Saved(*buffer)), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch all, uniform->Sample(2, 0));
  EXPECT_THAT(FloatsOf(all, "weight"), Each(1.0f));
}

TEST(PrioritizedSequences, WholeEpisodesCanHavePriorities) {
  Options options = Prioritized(1);
  options.unroll_len.reset();
  const auto buffer = Make(options);
  TestStreams streams;
  ASSERT_THAT(
      buffer->Push(streams.Make({{0, 3, SegmentEnd::kTerminated}, {1, 5, SegmentEnd::kTerminated}}),
                   0),
      IsOk());
  ASSERT_THAT(buffer->Update(InfoOf({0, 1000000}, {0, 3})), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(2, 0));
  EXPECT_EQ(batch.sequence_length(), 5);
  EXPECT_THAT(IdsOf(batch), ElementsAre(3, 4, 5, 6, 7, 3, 4, 5, 6, 7));
}

// ------------------------------------------------------------------------------------- refusals

TEST(PrioritizedSequences, WrongPrioritiesAreRefusedAndChangeNothing) {
  const auto buffer = Make(Prioritized(2));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 5}}), 0), IsOk());
  const TensorMap before = Saved(*buffer);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(buffer->Update(InfoOf({2, nan}, {0, 1})), IsInvalid("priority 1 of 2 is nan"));
  EXPECT_THAT(buffer->Update({{1, 2}, {0}, {0}}), IsInvalid("2 priorities for 1 replay_unique_id"));
  EXPECT_TRUE(SameBytes(before, Saved(*buffer)));
}

TEST(PrioritizedSequences, RowsWithPrioritiesOfTheirOwnAreRefused) {
  const auto buffer = Make(Prioritized(2));
  EXPECT_THAT(buffer->Push(RowsWithPriorities({1, 2, 3}), 0),
              IsInvalid("the rows have a column 'priority'"));
  EXPECT_THAT(buffer->Push(TestRows(0, 2), 0), IsOk());
}

TEST(PrioritizedSequences, WrongOptionsAreListed) {
  Options options = Prioritized(2, /*alpha=*/2, /*beta=*/-1, /*anneal_step=*/-5);
  EXPECT_THAT(SequenceReplayBuffer::Problems(options),
              ElementsAre("alpha is 2, expected 0 to 1", "beta is -1, expected 0 to 1",
                          "anneal_step is -5, expected at least 0"));
}

// --------------------------------------------------------------------------------- saved, loaded

TEST(PrioritizedSequences, DrawsAndAnnealingContinueAfterLoading) {
  Options options = Prioritized(4, 0.6, 0.4, /*anneal_step=*/40);
  options.overlap = 2;
  const auto original = Make(options);
  TestStreams streams;
  Rng rng(3, "updates");
  const auto step = [&](const std::vector<SequenceReplayBuffer*>& buffers) {
    const SegmentBatch push = RandomPush(&streams, &rng, 12);
    const auto high = static_cast<float>(rng.Uniform(0, 5));
    std::optional<Batch> first;
    for (SequenceReplayBuffer* const buffer : buffers) {
      ASSERT_THAT(buffer->Push(push, 0), IsOk());
      const absl::StatusOr<Batch> batch = buffer->Sample(4, 0, WithReplacement());
      if (!batch.ok()) continue;
      ASSERT_THAT(buffer->Update(InfoOf({high}, {IdsOf(*batch)[0]})), IsOk());
      if (!first.has_value()) first = *batch;
      ASSERT_TRUE(SameBytes(*first, *batch));
    }
  };
  for (int i = 0; i < 20; ++i) step({original.get()});
  options.seed = 99;
  const auto restored = Make(options);
  ASSERT_THAT(LoadFrom(restored.get(), Saved(*original)), IsOk());
  for (int i = 0; i < 30; ++i) step({original.get(), restored.get()});
  EXPECT_TRUE(SameBytes(Saved(*original), Saved(*restored)));
}

TEST(PrioritizedSequences, SequencesThatWereSavedWithoutPrioritiesGetThatOfNewOnes) {
  Options options = Prioritized(3);
  options.priority.reset();
  const auto without = Make(options);
  TestStreams streams;
  ASSERT_THAT(without->Push(streams.Make({{0, 40}, {1, 50}}), 0), IsOk());
  const auto buffer = Make(Prioritized(3));
  ASSERT_THAT(LoadFrom(buffer.get(), Saved(*without)), IsOk());
  EXPECT_EQ(buffer->count(), without->count());
  DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(buffer->count(), 0));
  EXPECT_THAT(FloatsOf(batch, "priority"), Each(1.0f));
  // Each stratum is one sequence.
  DING_ASSERT_OK_AND_ASSIGN(const Batch all, without->Sample(without->count(), 0));
  std::vector<int64_t> ids = IdsOf(all);
  std::sort(ids.begin(), ids.end());
  std::vector<int64_t> found = IdsOf(batch);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, ids);

  const TensorMap before = Saved(*without);
  EXPECT_THAT(LoadFrom(without.get(), Saved(*buffer)),
              IsInvalid("the saved sequences have priorities, expected none"));
  EXPECT_TRUE(SameBytes(before, Saved(*without)));
}

TEST(PrioritizedSequences, StateThatDoesNotFitIsRefused) {
  const auto buffer = Make(Prioritized(3));
  TestStreams streams;
  ASSERT_THAT(buffer->Push(streams.Make({{0, 10}}), 0), IsOk());
  const TensorMap good = Saved(*buffer);
  EXPECT_THAT(LoadFrom(Make(Prioritized(3, 1, 0.25)).get(), good),
              IsInvalid("saved first beta is 0.5, expected 0.25"));
  EXPECT_THAT(LoadFrom(Make(Prioritized(3, 1, 0.5, 9)).get(), good),
              IsInvalid("saved anneal_step is 0, expected 9"));
  EXPECT_THAT(LoadFrom(Make(Prioritized(3, 0.1)).get(), good), IsOk());

  TensorMap damaged = CloneAll(good);
  for (const auto& [name, tensor] : damaged) {
    if (name != "priorities/priority") continue;
    reinterpret_cast<float*>(tensor.raw_data())[9] = 1;  // Row 9 begins no sequence yet.
  }
  EXPECT_THAT(LoadFrom(buffer.get(), damaged),
              IsInvalid("saved priorities of 9 rows, of which 8 begin a sequence"));
  EXPECT_TRUE(SameBytes(good, Saved(*buffer)));
}

}  // namespace
}  // namespace ding
