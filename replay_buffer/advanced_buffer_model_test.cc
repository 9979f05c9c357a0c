// Compares the buffer with a simple model under random operations.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/advanced_buffer_testing.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using Options = AdvancedReplayBuffer::Options;

// A simple model of the buffer: a deque of rows that is searched linearly. CheckDraw() checks a
// batch and counts its uses.
class Model {
 public:
  struct Row {
    int64_t id;
    double priority;
    int64_t collect_iter;
    int64_t use = 0;
    bool valid = true;
  };

  explicit Model(const Options& options) : options_(options) {}

  void Push(const std::vector<int64_t>& collect_iter, const std::vector<float>& priority) {
    for (size_t i = 0; i < collect_iter.size(); ++i) {
      const float p = priority.empty() ? max_priority_ : priority[i] + 1e-5f;
      rows_.push_back({next_id_++, p, collect_iter[i]});
      if (static_cast<int64_t>(rows_.size()) > options_.capacity_rows) rows_.pop_front();
    }
  }
  void Clear() {
    rows_.clear();
    max_priority_ = 1;
  }
  Row* Find(int64_t id) {
    for (Row& row : rows_) {
      if (row.id == id && row.valid) return &row;
    }
    return nullptr;
  }
  void RetireStale(int64_t iter) {
    for (Row& row : rows_) {
      if (options_.max_staleness && row.collect_iter >= 0 &&
          iter - row.collect_iter >= *options_.max_staleness) {
        row.valid = false;
      }
    }
  }
  int64_t count() const {
    return std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.valid; });
  }
  int64_t Update(const PriorityInfo& info) {
    int64_t skipped = 0;
    for (size_t i = 0; i < info.priority.size(); ++i) {
      Row* const row = Find(info.replay_unique_id[i]);
      if (row == nullptr || row->id % options_.capacity_rows != info.replay_buffer_idx[i]) {
        ++skipped;
        continue;
      }
      row->priority = info.priority[i] + 1e-5f;
      max_priority_ = std::max(max_priority_, info.priority[i]);
    }
    return skipped;
  }
  // The ids of the valid rows that `sample` draws from, the oldest first.
  std::vector<int64_t> PartOf(const SampleOptions& sample) const {
    const AgeRange range = sample.range.value_or(AgeRange());
    std::vector<int64_t> part;
    int64_t from_newest = -count();
    int64_t from_oldest = std::min<int64_t>(0, sample.newest.value_or(count()) - count());
    for (const Row& row : rows_) {
      if (!row.valid) continue;
      const bool begun =
          from_oldest >= 0 && (range.begin < 0 ? from_newest : from_oldest) >= range.begin;
      const bool over =
          range.end.has_value() && (*range.end < 0 ? from_newest : from_oldest) >= *range.end;
      if (begun && !over) part.push_back(row.id);
      ++from_newest;
      ++from_oldest;
    }
    return part;
  }
  void CheckDraw(const Batch& batch, int64_t iter, double beta, const std::vector<int64_t>& part) {
    double min_priority = std::numeric_limits<double>::infinity();
    for (const Row& row : rows_) {
      if (row.valid) min_priority = std::min(min_priority, row.priority);
    }
    for (int64_t i = 0; i < batch.rows(); ++i) {
      Row* const row = Find(batch.column<int64_t>("replay_unique_id")[i]);
      ASSERT_NE(row, nullptr);
      ASSERT_TRUE(std::binary_search(part.begin(), part.end(), row->id)) << row->id;
      ASSERT_EQ(batch.column<int64_t>("replay_buffer_idx")[i], row->id % options_.capacity_rows);
      ASSERT_EQ(batch.column<float>("priority")[i], row->priority);
      ASSERT_EQ(batch.column<int64_t>("use")[i], ++row->use);
      ASSERT_EQ(batch.column<int64_t>("staleness")[i],
                row->collect_iter < 0 ? -1 : std::max<int64_t>(0, iter - row->collect_iter));
      const double weight = std::pow(row->priority / min_priority, -options_.alpha * beta);
      ASSERT_NEAR(batch.column<float>("weight")[i], weight, 3e-6 * weight);
    }
    for (Row& row : rows_) row.valid = row.valid && row.use < options_.max_use.value_or(1 << 30);
  }
  int64_t next_id() const { return next_id_; }
  double max_priority() const { return max_priority_; }

 private:
  const Options options_;
  std::deque<Row> rows_;
  int64_t next_id_ = 0;
  float max_priority_ = 1;
};

TEST(AdvancedReplayBuffer, RandomOperationsAgreeWithTheModel) {
  int draws_of_ranges = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed, "model");
    Options options;
    options.capacity_rows = static_cast<int64_t>(1 + rng.UniformInt(seed % 5 == 0 ? 2000 : 60));
    options.alpha = rng.UniformInt(4) == 0 ? 0 : rng.Uniform();
    options.anneal_step = static_cast<int64_t>(rng.UniformInt(50));
    if (rng.UniformInt(2) == 0) options.max_use = static_cast<int64_t>(1 + rng.UniformInt(4));
    if (rng.UniformInt(2) == 0) options.max_staleness = static_cast<int64_t>(1 + rng.UniformInt(9));
    const bool given = rng.UniformInt(2) == 0;
    SCOPED_TRACE(absl::StrCat("seed ", seed, ", capacity ", options.capacity_rows, ", alpha ",
                              options.alpha, ", max_use ", options.max_use.value_or(-1),
                              ", max_staleness ", options.max_staleness.value_or(-1)));
    auto buffer = MakeAdvancedBuffer(options);
    Model model(options);
    int64_t iter = 0;
    int64_t skipped = 0;
    for (int step = 0; step < 200; ++step) {
      SCOPED_TRACE(absl::StrCat("operation ", step));
      const uint64_t what = rng.UniformInt(100);
      if (what < 35) {
        const uint64_t most = rng.UniformInt(8) == 0 ? 2 * options.capacity_rows : 12;
        std::vector<int64_t> iters(1 + rng.UniformInt(most));
        std::vector<float> priority(given ? iters.size() : 0);
        for (int64_t& value : iters) {
          value = std::max<int64_t>(-1, iter - static_cast<int64_t>(rng.UniformInt(6)));
        }
        for (float& value : priority) value = static_cast<float>(std::exp(rng.Uniform(-5, 5)));
        const int64_t rows = static_cast<int64_t>(iters.size());
        ASSERT_THAT(buffer->Push(TestRows(model.next_id(), rows, iters, priority), step), IsOk());
        model.Push(iters, priority);
      } else if (what < 75) {
        iter += rng.UniformInt(4) == 0 ? 1 : 0;
        const double beta = buffer->beta();
        SampleOptions sample = WithReplacement();
        if (rng.UniformInt(2) == 0) {
          sample.newest = 1 + rng.UniformInt(static_cast<uint64_t>(options.capacity_rows));
        }
        if (rng.UniformInt(2) == 0) {
          // From one side, so that it is never always empty.
          const auto at =
              static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(options.capacity_rows)));
          const auto length = static_cast<int64_t>(1 + rng.UniformInt(40));
          sample.range = AgeRange{at, at + length};
          if (rng.UniformInt(2) == 0) sample.range = AgeRange{-at - 1 - length, -at - 1};
          if (rng.UniformInt(3) == 0) sample.range->end.reset();
        }
        model.RetireStale(iter);
        const std::vector<int64_t> part = model.PartOf(sample);
        const absl::StatusOr<Batch> batch =
            buffer->Sample(static_cast<int64_t>(1 + rng.UniformInt(20)), iter, sample);
        if (part.empty()) {
          ASSERT_THAT(batch, IsFailedPrecondition());
        } else {
          ASSERT_THAT(batch, IsOk());
          ASSERT_NO_FATAL_FAILURE(model.CheckDraw(*batch, iter, beta, part));
          draws_of_ranges += sample.range.has_value();
        }
      } else if (what < 96) {
        PriorityInfo info;
        for (uint64_t i = rng.UniformInt(20); i > 0; --i) {
          const int64_t id = static_cast<int64_t>(rng.UniformInt(model.next_id() + 3));
          info.priority.push_back(static_cast<float>(std::exp(rng.Uniform(-5, 5))));
          info.replay_unique_id.push_back(id);
          info.replay_buffer_idx.push_back((id + (rng.UniformInt(9) == 0)) % options.capacity_rows);
        }
        ASSERT_THAT(buffer->Update(info), IsOk());
        skipped += model.Update(info);
        ASSERT_EQ(buffer->counters().skipped_updates, skipped);
      } else if (what < 99) {
        const TensorMap saved = Saved(*buffer);
        auto restored = MakeAdvancedBuffer(options);
        ASSERT_THAT(LoadFrom(restored.get(), saved), IsOk());
        ASSERT_TRUE(SameBytes(saved, Saved(*restored)));
        ASSERT_EQ(restored->beta(), buffer->beta());
        buffer = std::move(restored);
        skipped = 0;
      } else {
        buffer->Clear();
        model.Clear();
      }
      ASSERT_EQ(buffer->count(), model.count());
      ASSERT_EQ(buffer->max_priority(), model.max_priority());
    }
  }
  EXPECT_GT(draws_of_ranges, 500);
}

// Tests how often each row is drawn. Seeds are fixed; a correct buffer would fail a test with one
// seed in 10^6.

constexpr double kFalseAlarm = 1e-6;

// Returns the value below which chi-squared lies with probability 1 - kFalseAlarm (Wilson and
// Hilferty 1931: its cube root is nearly normal; 4.75 standard deviations).
double ChiSquaredLimit(int64_t degrees_of_freedom) {
  const double variance = 2.0 / (9.0 * static_cast<double>(degrees_of_freedom));
  return static_cast<double>(degrees_of_freedom) *
         std::pow(1 - variance + 4.75 * std::sqrt(variance), 3);
}

SampleOptions PartOf(std::optional<int64_t> newest, bool replace) {
  SampleOptions options;
  options.newest = newest;
  options.replace = replace;
  return options;
}

// Returns the ids of the first rows of the `size` rows, sequences or episodes of a batch.
std::vector<int64_t> FirstIds(const Batch& batch, int64_t size) {
  const auto ids = batch.column<int64_t>("replay_unique_id");
  std::vector<int64_t> first;
  for (int64_t i = 0; i < size; ++i) first.push_back(ids[i * batch.rows() / size]);
  return first;
}

class UniformDraws : public testing::TestWithParam<BufferType> {};

std::vector<BufferType> UniformTypes() {
  std::vector<BufferType> types;
  for (const BufferType& type : BufferTypes()) {
    if (!type.prioritized || type.name == "AdvancedUniform") types.push_back(type);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types, UniformDraws, testing::ValuesIn(UniformTypes()), NameOfBufferType);

// Rows, sequences and episodes in the drawn part must be drawn equally often, whatever their
// length, and the others never. Without replacement, and by strata, the counts vary less than
// chi-squared.
TEST_P(UniformDraws, DrawsThePartEquallyOften) {
  constexpr int64_t kSize = 5;
  constexpr int kDraws = 4000;
  BufferSettings settings;
  settings.capacity_rows = 128;
  settings.seed = 17;
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  TestStreams streams;
  for (int64_t i = 0; i < 40; ++i) {  // The ring wraps; episodes of 1 to 8 rows.
    ASSERT_THAT(buffer->Push(streams.Make({{i % 3, 1 + i % 5, SegmentEnd::kCut},
                                           {i % 3, 1 + i % 3, SegmentEnd::kTruncated}}),
                             i),
                IsOk());
  }
  const int64_t count = buffer->count();
  ASSERT_GE(count, 20);
  DING_ASSERT_OK_AND_ASSIGN(const Batch everything, buffer->Sample(count, 0));
  std::vector<int64_t> all = FirstIds(everything, count);
  std::sort(all.begin(), all.end());
  ASSERT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());

  for (const std::optional<int64_t> newest :
       {std::optional<int64_t>(), std::optional<int64_t>(11)}) {
    for (const bool replace : {false, true}) {
      const int64_t part = newest.value_or(count);
      std::map<int64_t, double> seen;
      for (int i = 0; i < kDraws; ++i) {
        DING_ASSERT_OK_AND_ASSIGN(const Batch batch,
                                  buffer->Sample(kSize, 0, PartOf(newest, replace)));
        for (const int64_t id : FirstIds(batch, kSize)) ++seen[id];
      }
      const double expected = static_cast<double>(kDraws * kSize) / static_cast<double>(part);
      double chi_squared = 0;
      for (auto id = all.end() - part; id != all.end(); ++id) {
        chi_squared += std::pow(seen[*id] - expected, 2) / expected;
      }
      EXPECT_LT(chi_squared, ChiSquaredLimit(part - 1))
          << "part " << part << ", replace " << replace;
      EXPECT_EQ(static_cast<int64_t>(seen.size()), part) << "others were drawn";
    }
  }
}

// Returns what is to be drawn from `ids`, the oldest first.
std::vector<int64_t> PartOf(const std::vector<int64_t>& ids, const SampleOptions& options) {
  const auto count = static_cast<int64_t>(ids.size());
  const int64_t skipped = std::max<int64_t>(0, count - options.newest.value_or(count));
  const AgeRange range = options.range.value_or(AgeRange());
  std::vector<int64_t> part;
  for (int64_t i = skipped; i < count; ++i) {
    const int64_t from_oldest = i - skipped;
    const int64_t from_newest = i - count;
    if ((range.begin < 0 ? from_newest : from_oldest) < range.begin) continue;
    if (range.end.has_value() && (*range.end < 0 ? from_newest : from_oldest) >= *range.end) {
      continue;
    }
    part.push_back(ids[i]);
  }
  return part;
}

// A draw without replacement of as many as there are in a part has each of them once, and none of
// the others.
TEST_P(UniformDraws, AnyRangeByAgeIsThatOfAList) {
  BufferSettings settings;
  settings.capacity_rows = 64;
  settings.seed = 5;
  const std::unique_ptr<IBuffer> buffer = GetParam().make(settings);
  TestStreams streams;
  Rng rng(11, "ranges");
  int64_t drawn = 0;
  for (int64_t step = 0; step < 1500; ++step) {
    if (step % 10 == 0) {
      ASSERT_THAT(
          buffer->Push(streams.Make({{step % 3, 1 + step % 7, SegmentEnd::kTruncated}}), step),
          IsOk());
    }
    const int64_t count = buffer->count();
    std::vector<int64_t> all;
    if (count > 0) {
      DING_ASSERT_OK_AND_ASSIGN(const Batch everything, buffer->Sample(count, 0));
      all = FirstIds(everything, count);
      std::sort(all.begin(), all.end());
    }
    const auto number = [&rng, count] {
      return static_cast<int64_t>(rng.UniformInt(static_cast<uint64_t>(2 * count + 5))) - count - 2;
    };
    SampleOptions options;
    if (rng.UniformInt(3) == 0) options.newest = std::max<int64_t>(1, number());
    options.range = AgeRange{number(), std::nullopt};
    if (rng.UniformInt(4) != 0) options.range->end = number();
    const std::vector<int64_t> part = PartOf(all, options);
    const auto size = static_cast<int64_t>(part.size());
    const absl::StatusOr<Batch> more = buffer->Sample(size + 1, 0, options);
    EXPECT_THAT(more, testing::AnyOf(IsFailedPrecondition(), IsInvalid()));
    if (part.empty()) continue;
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(size, 0, options));
    ASSERT_THAT(FirstIds(batch, size), testing::UnorderedElementsAreArray(part))
        << "range " << options.range->begin << " to "
        << options.range->end.value_or(std::numeric_limits<int64_t>::max()) << " of " << count;
    options.replace = true;
    DING_ASSERT_OK_AND_ASSIGN(const Batch repeating, buffer->Sample(3, 0, options));
    for (const int64_t id : FirstIds(repeating, 3)) ASSERT_THAT(part, testing::Contains(id));
    ++drawn;
  }
  EXPECT_GT(drawn, 300);
}

// Returns a full buffer of `weights.size()` rows with these weights, which are p^alpha.
std::unique_ptr<AdvancedReplayBuffer> WithWeights(AdvancedReplayBuffer::Options options,
                                                  const std::vector<double>& weights) {
  options.capacity_rows = static_cast<int64_t>(weights.size());
  auto buffer = AdvancedReplayBuffer::Create(options).value();
  TestStreams streams;
  EXPECT_THAT(buffer->Push(streams.Make({{0, options.capacity_rows}}), 0), IsOk());
  PriorityInfo info;
  for (size_t i = 0; i < weights.size(); ++i) {
    info.priority.push_back(static_cast<float>(std::pow(weights[i], 1 / options.alpha) - 1e-5));
    info.replay_unique_id.push_back(static_cast<int64_t>(i));
    info.replay_buffer_idx.push_back(static_cast<int64_t>(i));
  }
  EXPECT_THAT(buffer->Update(info), IsOk());
  return buffer;
}

std::vector<double> SomeWeights(size_t rows) {
  Rng rng(23, "weights");
  std::vector<double> weights(rows);
  for (double& weight : weights) weight = rng.Uniform(0.5, 3);
  return weights;
}

// The rows lie side by side, each as wide as its weight. Row j of a batch is drawn from the j-th of
// B equal parts of the total width, so each row is drawn with the probability of its share of the
// part.
TEST(PrioritizedDraws, DrawsFromEachStratumInProportionToWeights) {
  constexpr int64_t kSize = 8;
  constexpr int kDraws = 5000;
  // Weights are sums of float32, so the position of a row is known only this well.
  constexpr double kEdge = 1e-5;
  const std::vector<double> weights = SomeWeights(40);
  AdvancedReplayBuffer::Options options;
  options.seed = 3;
  const auto buffer = WithWeights(options, weights);
  std::vector<std::vector<double>> seen(kSize, std::vector<double>(weights.size()));
  for (int i = 0; i < kDraws; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(kSize, 0));
    for (int64_t j = 0; j < kSize; ++j) {
      ++seen[j][batch.column<int64_t>("replay_unique_id")[j]];
    }
  }
  double total = 0;
  for (const double weight : weights) total += weight;
  const double stratum = total / kSize;
  double chi_squared = 0;
  int64_t degrees_of_freedom = 0;
  for (int64_t j = 0; j < kSize; ++j) {
    const double low = static_cast<double>(j) * stratum;
    double begin = 0;
    double rest_expected = kDraws;
    double rest_seen = kDraws;
    for (size_t row = 0; row < weights.size(); ++row) {
      const double end = begin + weights[row];
      const double share = (std::min(end, low + stratum) - std::max(begin, low)) / stratum;
      begin = end;
      if (share < -kEdge) {
        EXPECT_EQ(seen[j][row], 0) << "row " << row << " is not in stratum " << j;
      }
      const double expected = std::max(share, 0.0) * kDraws;
      if (expected < 20) continue;  // Too few for chi-squared: the row is counted with the rest.
      chi_squared += std::pow(seen[j][row] - expected, 2) / expected;
      ++degrees_of_freedom;
      rest_expected -= expected;
      rest_seen -= seen[j][row];
    }
    if (rest_expected < 20) {
      --degrees_of_freedom;
    } else {
      chi_squared += std::pow(rest_seen - rest_expected, 2) / rest_expected;
    }
  }
  ASSERT_GT(degrees_of_freedom, 30);
  EXPECT_LT(chi_squared, ChiSquaredLimit(degrees_of_freedom));
}

// With beta = 1 the weights undo the priorities: the weighted sum over draws of a function of the
// rows is, but for a constant, the sum of the function over all rows. The terms are independent and
// in [0, 1], so the mean of n terms is off by more than sqrt(ln(2 / kFalseAlarm) / 2n) with a
// probability of at most kFalseAlarm (Hoeffding 1963).
TEST(PrioritizedDraws, ImportanceWeightsUndoThePriorities) {
  constexpr int64_t kSize = 16;
  constexpr int kDraws = 5000;
  const std::vector<double> weights = SomeWeights(50);
  double total = 0;
  for (const double weight : weights) total += weight;
  const double least = *std::min_element(weights.begin(), weights.end()) / total;
  AdvancedReplayBuffer::Options options;
  options.beta = 1;
  options.seed = 5;
  const auto buffer = WithWeights(options, weights);
  std::map<int64_t, double> sums;  // by function: rows whose id is a multiple of the key
  for (int i = 0; i < kDraws; ++i) {
    DING_ASSERT_OK_AND_ASSIGN(const Batch batch, buffer->Sample(kSize, 0));
    for (int64_t row = 0; row < kSize; ++row) {
      const int64_t id = batch.column<int64_t>("replay_unique_id")[row];
      const double weight = batch.column<float>("weight")[row];
      ASSERT_NEAR(weight, least / (weights[id] / total), 1e-5);
      for (const int64_t key : {1, 2, 7}) sums[key] += id % key == 0 ? weight : 0;
    }
  }
  constexpr double kTerms = kSize * kDraws;
  const double tolerance = std::sqrt(std::log(2 / kFalseAlarm) / (2 * kTerms));
  for (const auto& [key, sum] : sums) {
    const double rows = std::ceil(static_cast<double>(weights.size()) / static_cast<double>(key));
    EXPECT_NEAR(sum / kTerms, least * rows, tolerance) << "multiples of " << key;
  }
}

}  // namespace
}  // namespace ding
