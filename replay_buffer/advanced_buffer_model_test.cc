// Compares the buffer with a simple model under random operations.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/replay_buffer/advanced_buffer.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/advanced_buffer_testing.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
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
          ASSERT_THAT(batch, StatusIs(absl::StatusCode::kFailedPrecondition));
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

}  // namespace
}  // namespace ding
