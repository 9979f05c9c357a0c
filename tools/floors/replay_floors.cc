// Floors of replay buffers: rows of an observation, an action (int64), a reward (float32) and the
// iteration of their policy (int64), in flat columns. A draw also has the next observation
// (that of the following row), the discount and the number of steps.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/tools/floors/floors.h"
#include "ding_worker/tools/floors/weight_tree.h"

namespace floors {
namespace {

constexpr size_t kVectorBytes = 16;
constexpr size_t kFrameBytes = 84 * 84;
constexpr size_t kFrames = 4;
constexpr size_t kImageRows = 10000;
constexpr size_t kUnrollLen = 80;

// Columns whose values tell the row.
struct Rows {
  // `between` is the distance of two observations in bytes, less than `size` where frames are
  // stored once.
  Rows(size_t rows, size_t size, size_t between)
      : obs_bytes(size), stride(between), obs(between * (rows + kUnrollLen) + size) {
    for (size_t at = 0; at + 4 <= obs.size(); at += 4) {
      const auto value = static_cast<uint32_t>(at / between + at % 251);
      std::memcpy(&obs[at], &value, 4);
    }
    action.resize(rows + kUnrollLen);
    reward.resize(action.size());
    collect_iter.resize(action.size());
    for (size_t row = 0; row < action.size(); ++row) {
      action[row] = static_cast<int64_t>(row % 2);
      reward[row] = static_cast<float>(row % 1000);
      collect_iter[row] = static_cast<int64_t>(row / 8);
    }
  }

  const size_t obs_bytes;
  const size_t stride;
  std::vector<char> obs;
  std::vector<int64_t> action;
  std::vector<float> reward;
  std::vector<int64_t> collect_iter;
};

// Sequences of `length` rows, which are copied from `rows`.
class Gather {
 public:
  Gather(const Rows* rows, size_t count, size_t length)
      : rows_(*rows),
        length_(length),
        obs_(count * length * rows->obs_bytes),
        next_obs_(obs_.size()),
        action_(count * length),
        reward_(action_.size()),
        collect_iter_(action_.size()),
        discount_(action_.size()),
        n_step_(action_.size()) {}

  void Run(const std::vector<uint32_t>& starts) {
    if (rows_.obs_bytes == kVectorBytes) {
      CopyObs<kVectorBytes>(starts);  // with moves instead of calls
    } else {
      CopyObs<0>(starts);
    }
    Copy(rows_.action, starts, &action_);
    Copy(rows_.reward, starts, &reward_);
    Copy(rows_.collect_iter, starts, &collect_iter_);
    std::fill(discount_.begin(), discount_.end(), 0.99f);
    std::fill(n_step_.begin(), n_step_.end(), 1);
  }

  void Check(const std::vector<uint32_t>& starts) const {
    for (size_t i = 0; i < action_.size(); ++i) {
      const size_t row = starts[i / length_] + i % length_;
      const char* const obs = &rows_.obs[row * rows_.stride];
      Require(std::memcmp(&obs_[i * rows_.obs_bytes], obs, rows_.obs_bytes) == 0 &&
                  std::memcmp(&next_obs_[i * rows_.obs_bytes], obs + rows_.stride,
                              rows_.obs_bytes) == 0 &&
                  action_[i] == rows_.action[row] && reward_[i] == rows_.reward[row] &&
                  collect_iter_[i] == rows_.collect_iter[row],
              "a row was not gathered");
    }
  }

 private:
  // kBytes is the size of an observation, or 0 for any size: then each copy is a call.
  template <size_t kBytes>
  void CopyObs(const std::vector<uint32_t>& starts) {
    const size_t bytes = kBytes == 0 ? rows_.obs_bytes : kBytes;
    const size_t stride = kBytes == 0 ? rows_.stride : kBytes;
    const uint32_t* const ids = starts.data();
    const char* const from = rows_.obs.data();
    char* const obs = obs_.data();
    char* const next_obs = next_obs_.data();
    const size_t count = starts.size();
    if (length_ == 1) {
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(obs + i * bytes, from + ids[i] * stride, bytes);
        std::memcpy(next_obs + i * bytes, from + (ids[i] + 1) * stride, bytes);
      }
      return;
    }
    const size_t piece = length_ * bytes;  // Observations of sequences do not overlap.
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(obs + i * piece, from + ids[i] * bytes, piece);
      std::memcpy(next_obs + i * piece, from + (ids[i] + 1) * bytes, piece);
    }
  }
  template <typename T>
  void Copy(const std::vector<T>& column, const std::vector<uint32_t>& starts,
            std::vector<T>* copies) {
    const uint32_t* const ids = starts.data();
    const T* const from = column.data();
    T* const to = copies->data();
    const size_t count = starts.size();
    if (length_ == 1) {
      for (size_t i = 0; i < count; ++i) to[i] = from[ids[i]];
      return;
    }
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * length_, from + ids[i], length_ * sizeof(T));
    }
  }

  const Rows& rows_;
  const size_t length_;
  std::vector<char> obs_;
  std::vector<char> next_obs_;
  std::vector<int64_t> action_;
  std::vector<float> reward_;
  std::vector<int64_t> collect_iter_;
  std::vector<float> discount_;
  std::vector<int32_t> n_step_;
};

// A draw of `count` distinct sequences of `length` rows that begin in the first `rows` rows.
class Sample {
 public:
  Sample(size_t rows, size_t count, size_t length, size_t obs_bytes, size_t stride)
      : rows_(std::make_unique<Rows>(rows, obs_bytes, stride)),
        draw_(static_cast<uint32_t>(rows)),
        starts_(count),
        gather_(rows_.get(), count, length) {
    (*this)();
    gather_.Check(starts_);
    std::vector<uint32_t> sorted = starts_;
    std::sort(sorted.begin(), sorted.end());
    Require(std::unique(sorted.begin(), sorted.end()) == sorted.end() && sorted.back() < rows,
            "a draw has a row twice, or one that is not there");
  }
  void operator()() {
    draw_.Draw(&starts_);
    gather_.Run(starts_);
  }

 private:
  std::unique_ptr<Rows> rows_;
  DistinctDraw draw_;
  std::vector<uint32_t> starts_;
  Gather gather_;
};

// Segments of `length` rows, and the observations behind them, go into a ring.
class Push {
 public:
  Push(size_t capacity, size_t rows, size_t length)
      : capacity_(capacity / rows * rows),
        count_(rows),
        from_(rows, kVectorBytes, kVectorBytes),
        to_(capacity_, kVectorBytes, kVectorBytes),
        final_obs_(rows / length * kVectorBytes, 'x'),
        stored_final_obs_(final_obs_.size()) {
    std::fill(to_.obs.begin(), to_.obs.end(), 0);
    (*this)();
    for (size_t at = 0; at < rows * kVectorBytes; ++at) {
      Require(to_.obs[at] == from_.obs[at], "a row was not pushed");
    }
    Require(stored_final_obs_ == final_obs_, "an observation was not pushed");
  }
  void operator()() {
    std::memcpy(&to_.obs[at_ * kVectorBytes], from_.obs.data(), count_ * kVectorBytes);
    std::memcpy(&to_.action[at_], from_.action.data(), count_ * sizeof(int64_t));
    std::memcpy(&to_.reward[at_], from_.reward.data(), count_ * sizeof(float));
    std::memcpy(&to_.collect_iter[at_], from_.collect_iter.data(), count_ * sizeof(int64_t));
    std::memcpy(stored_final_obs_.data(), final_obs_.data(), final_obs_.size());
    at_ = at_ + count_ == capacity_ ? 0 : at_ + count_;
  }

 private:
  const size_t capacity_;
  const size_t count_;
  Rows from_;
  Rows to_;
  std::vector<char> final_obs_;
  std::vector<char> stored_final_obs_;
  size_t at_ = 0;
};

// One segment of stacks of frames: the newest frame of each row goes into a ring.
class PushStacks {
 public:
  explicit PushStacks(size_t rows)
      : rows_(rows),
        stacks_((rows + 1) * kFrames * kFrameBytes, 'x'),
        ring_(kImageRows * kFrameBytes),
        final_obs_(kFrames * kFrameBytes) {}
  void operator()() {
    for (size_t row = 0; row < rows_; ++row, at_ = at_ + 1 == kImageRows ? 0 : at_ + 1) {
      std::memcpy(&ring_[at_ * kFrameBytes], &stacks_[(kFrames * row + kFrames - 1) * kFrameBytes],
                  kFrameBytes);
    }
    std::memcpy(final_obs_.data(), &stacks_[rows_ * kFrames * kFrameBytes], final_obs_.size());
  }

 private:
  const size_t rows_;
  std::vector<char> stacks_;
  std::vector<char> ring_;
  std::vector<char> final_obs_;
  size_t at_ = 0;
};

// A prioritized draw of `count` sequences, one from each stratum, with their importance weights,
// and an update of their priorities. A sequence begins at every `step`-th row.
class Cycle {
 public:
  Cycle(size_t rows, size_t count, size_t length, size_t step)
      : step_(step),
        rows_(std::make_unique<Rows>(rows, kVectorBytes, kVectorBytes)),
        tree_(Weights(rows / step)),
        leaves_(count),
        starts_(count),
        points_(count),
        weights_(count),
        is_weights_(count),
        gather_(rows_.get(), count, length) {
    for (std::vector<float>& batch : priorities_) {
      batch.resize(count);
      for (float& priority : batch) priority = RandomPriority();
    }
    CheckTree(rows / step);
    (*this)();
    gather_.Check(starts_);
  }

  void operator()() {
    Draw();
    const float min = tree_.min();
    for (size_t i = 0; i < starts_.size(); ++i) {
      starts_[i] = leaves_[i] * static_cast<uint32_t>(step_);
      is_weights_[i] = std::pow(min / tree_.weight(leaves_[i]), kBeta);
    }
    gather_.Run(starts_);
    const std::vector<float>& fresh = priorities_[next_++ % priorities_.size()];
    for (size_t i = 0; i < fresh.size(); ++i) weights_[i] = std::pow(fresh[i] + 1e-5f, kAlpha);
    tree_.Set(leaves_, weights_);
    benchmark::DoNotOptimize(is_weights_.data());
  }

 private:
  static constexpr float kAlpha = 0.6f;
  static constexpr float kBeta = 0.4f;

  float RandomPriority() { return std::exp(-6 * random_.Uniform()); }
  std::vector<float> Weights(size_t count) {
    std::vector<float> weights(count);
    for (float& weight : weights) weight = std::pow(RandomPriority(), kAlpha);
    return weights;
  }
  void Draw() {
    const float stratum = tree_.total() / static_cast<float>(points_.size());
    Random random = random_;
    for (size_t i = 0; i < points_.size(); ++i) {
      points_[i] = (static_cast<float>(i) + random.Uniform()) * stratum;
    }
    random_ = random;
    tree_.Find(&points_, &leaves_);
  }

  // Compares draws with running sums of all weights, and the least weight with all weights.
  void CheckTree(size_t leaves) {
    for (int round = 0; round < 3; ++round) {
      Draw();
      double before = 0;
      float least = std::numeric_limits<float>::infinity();
      std::vector<double> sums;
      for (size_t leaf = 0; leaf < leaves; ++leaf) {
        sums.push_back(before);
        before += tree_.weight(leaf);
        least = std::min(least, tree_.weight(leaf));
      }
      Require(least == tree_.min(), "the least weight is wrong");
      Require(std::abs(before / tree_.total() - 1) < 1e-4, "the sum of the weights is wrong");
      const double stratum = before / static_cast<double>(leaves_.size());
      const double slack = 1e-4 * before;
      for (size_t i = 0; i < leaves_.size(); ++i) {
        const double low = static_cast<double>(i) * stratum;
        Require(sums[leaves_[i]] + tree_.weight(leaves_[i]) > low - slack &&
                    sums[leaves_[i]] < low + stratum + slack,
                "a leaf is not in its stratum");
      }
      tree_.Set(leaves_, priorities_[static_cast<size_t>(round)]);
    }
  }

  const size_t step_;
  Random random_;
  std::unique_ptr<Rows> rows_;
  WeightTree tree_;
  std::vector<std::vector<float>> priorities_{64};  // made beforehand: they are the learner's work
  size_t next_ = 0;
  std::vector<uint32_t> leaves_;
  std::vector<uint32_t> starts_;
  std::vector<float> points_;
  std::vector<float> weights_;
  std::vector<float> is_weights_;
  Gather gather_;
};

std::string Name(const char* name, size_t first, size_t second) {
  return std::string(name) + "/" + std::to_string(first) + "/" + std::to_string(second);
}

}  // namespace

void AddReplayFloors() {
  for (const size_t rows : {10000, 100000, 1000000, 10000000}) {
    const double aim = rows <= 100000 ? 0.6 : rows == 1000000 ? 0.8 : 0.85;
    for (const size_t count : {64, 256}) {
      AddFloor(Name("naive_buffer_benchmark:Sample", rows, count), aim, count,
               [rows, count] { return Sample(rows, count, 1, kVectorBytes, kVectorBytes); });
      AddFloor(Name("advanced_buffer_benchmark:Cycle", rows, count), 0.7, count,
               [rows, count] { return Cycle(rows, count, 1, 1); });
    }
  }
  const std::string naive = "naive_buffer_benchmark:";
  for (const size_t rows : {64, 4096}) {
    AddFloor(naive + "Push/" + std::to_string(rows), 0.48, rows,
             [rows] { return Push(100000, rows, rows); });
  }
  AddFloor(naive + "PushEightStreams", 0.24, 64, [] { return Push(100000, 64, 8); });
  AddFloor(naive + "PushOneRowSegments", 0.05, 8, [] { return Push(100000, 8, 1); });
  AddFloor(naive + "PushStacks/64", 0, 64, [] { return PushStacks(64); });
  AddFloor(naive + "SampleImages/64", 0.95, 64,
           [] { return Sample(kImageRows, 64, 1, kFrames * kFrameBytes, kFrames * kFrameBytes); });
  AddFloor(naive + "SampleStacks/64", 0.9, 64,
           [] { return Sample(kImageRows, 64, 1, kFrames * kFrameBytes, kFrameBytes); });
  for (const size_t count : {16, 64}) {
    const std::string end = "/" + std::to_string(count);
    AddFloor("sequence_buffer_benchmark:SampleSequences" + end, 0, count * kUnrollLen,
             [count] { return Sample(100000, count, kUnrollLen, kVectorBytes, kVectorBytes); });
    AddFloor("sequence_buffer_benchmark:CycleByPriority" + end, 0, count * kUnrollLen,
             [count] { return Cycle(100000, count, kUnrollLen, kUnrollLen / 2); });
  }
}

}  // namespace floors
