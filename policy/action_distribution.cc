#include "ding_worker/policy/action_distribution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/action_space.h"

namespace ding {
namespace {

constexpr char kAction[] = "action";
constexpr double kLogTwoPi = 1.8378770664093453;
constexpr double kMaxLogits = 1e9;  // of a row

absl::Status CheckHead(const FieldSpec& head, absl::Span<const float> values) {
  const int64_t bad = FindNonFinite(values);
  if (bad < 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("'", head.name, "' of row ", bad / head.num_elements(),
                                          " is ", values[static_cast<size_t>(bad)]));
}

// Returns the number of rows of a column with `elements` values per row.
size_t RowCount(size_t size, size_t elements) {
  DING_CHECK(size % elements == 0) << size << " values for rows of " << elements;
  return size / elements;
}

class Categorical : public ActionDistribution {
 public:
  explicit Categorical(const FieldSpec& action)
      : counts_(CategoryCounts(action)),
        width_(static_cast<size_t>(std::accumulate(counts_.begin(), counts_.end(), int64_t{0}))),
        head_(Box("logit", {static_cast<int64_t>(width_)})),
        fields_{action} {}

  const FieldSpec& head() const override { return head_; }
  absl::Span<const FieldSpec> sample_fields() const override { return fields_; }

  absl::Status Set(absl::Span<const float> head, absl::Span<const uint8_t> mask) override {
    DING_RETURN_IF_ERROR(CheckHead(head_, head));
    DING_CHECK(mask.empty() || mask.size() == head.size())
        << mask.size() << " elements of the mask for " << head.size() << " logits";
    DING_RETURN_IF_ERROR(CheckLegal(mask, counts_));
    logit_ = head;
    mask_ = mask;
    rows_ = RowCount(head.size(), width_);
    prob_.resize(head.size());
    log_prob_.resize(head.size());
    ForEachElement([this](size_t /*row*/, size_t /*element*/, size_t begin, size_t count) {
      Normalize(begin, count);
    });
    return absl::OkStatus();
  }

  void Sample(Rng* rng, const MutableColumnsView& out) override {
    const absl::Span<int64_t> action = Actions(out);
    ForEachElement([&](size_t row, size_t element, size_t begin, size_t count) {
      action[row * counts_.size() + element] = Draw(begin, count, rng);
    });
  }

  void Mode(const MutableColumnsView& out) override {
    const absl::Span<int64_t> action = Actions(out);
    ForEachElement([&](size_t row, size_t element, size_t begin, size_t count) {
      action[row * counts_.size() + element] = Best(begin, count);
    });
  }

  void LogProb(const ColumnsView& rows, int field, absl::Span<float> log_prob) override {
    CheckRows(log_prob.size());
    const absl::Span<const int64_t> action = rows.column<int64_t>(field);
    std::fill(log_prob.begin(), log_prob.end(), 0.0f);
    ForEachElement([&](size_t row, size_t element, size_t begin, size_t count) {
      log_prob[row] += log_prob_[begin + Taken(action, row, element, count)];
    });
  }

  void Entropy(absl::Span<float> entropy) override {
    CheckRows(entropy.size());
    std::fill(entropy.begin(), entropy.end(), 0.0f);
    ForEachElement([&](size_t row, size_t /*element*/, size_t begin, size_t count) {
      entropy[row] += static_cast<float>(EntropyOf(begin, count));
    });
  }

  void Backward(const ColumnsView& rows, int field, absl::Span<const float> d_log_prob,
                absl::Span<const float> d_entropy, absl::Span<float> d_head) override {
    CheckRows(d_log_prob.size());
    CheckRows(d_entropy.size());
    DING_CHECK(d_head.size() == prob_.size()) << d_head.size() << " and " << prob_.size();
    const absl::Span<const int64_t> action = rows.column<int64_t>(field);
    ForEachElement([&](size_t row, size_t element, size_t begin, size_t count) {
      const double of_log_prob = d_log_prob[row];
      const double of_entropy = d_entropy[row];
      const double entropy = of_entropy == 0 ? 0 : EntropyOf(begin, count);
      for (size_t j = begin; j < begin + count; ++j) {
        // 0 log 0 is 0.
        const double log_prob = prob_[j] > 0 ? log_prob_[j] : 0;
        d_head[j] =
            static_cast<float>(-prob_[j] * (of_log_prob + of_entropy * (log_prob + entropy)));
      }
      d_head[begin + Taken(action, row, element, count)] += d_log_prob[row];
    });
  }

  double ImitationLoss(const ColumnsView& rows, int field, absl::Span<float> d_head) override {
    CheckRows(static_cast<size_t>(rows.rows()));
    DING_CHECK(d_head.size() == prob_.size()) << d_head.size() << " and " << prob_.size();
    const absl::Span<const int64_t> action = rows.column<int64_t>(field);
    const auto scale = 1 / static_cast<float>(rows_);
    double sum = 0;
    ForEachElement([&](size_t row, size_t element, size_t begin, size_t count) {
      for (size_t j = begin; j < begin + count; ++j) d_head[j] = scale * prob_[j];
      const size_t taken = begin + Taken(action, row, element, count);
      d_head[taken] -= scale;
      sum -= log_prob_[taken];
    });
    return sum / static_cast<double>(rows_);
  }

 private:
  // Calls f(row, element, begin, count): the logits of that element are [begin, begin + count).
  template <typename F>
  void ForEachElement(const F& f) {
    size_t begin = 0;
    for (size_t row = 0; row < rows_; ++row) {
      for (size_t element = 0; element < counts_.size(); ++element) {
        const auto count = static_cast<size_t>(counts_[element]);
        f(row, element, begin, count);
        begin += count;
      }
    }
  }

  bool Legal(size_t j) const { return mask_.empty() || mask_[j] != 0; }

  // Computes the log-softmax over the legal categories.
  void Normalize(size_t begin, size_t count) {
    // float32 functions take half the time, and the results are float32 columns anyway.
    const double highest = logit_[begin + static_cast<size_t>(Best(begin, count))];
    double sum = 0;
    for (size_t j = begin; j < begin + count; ++j) {
      prob_[j] = Legal(j) ? std::exp(static_cast<float>(logit_[j] - highest)) : 0;
      sum += prob_[j];
    }
    const double log_sum = std::log(static_cast<float>(sum));
    for (size_t j = begin; j < begin + count; ++j) {
      prob_[j] = static_cast<float>(prob_[j] / sum);
      log_prob_[j] = Legal(j) ? static_cast<float>(logit_[j] - highest - log_sum)
                              : -std::numeric_limits<float>::infinity();
    }
  }

  int64_t Draw(size_t begin, size_t count, Rng* rng) const {
    double rest = rng->Uniform();
    // A remainder due to rounding belongs to the last category with a probability above 0.
    size_t drawn = 0;
    for (size_t j = 0; j < count && rest >= 0; ++j) {
      if (prob_[begin + j] <= 0) continue;
      drawn = j;
      rest -= prob_[begin + j];
    }
    return static_cast<int64_t>(drawn);
  }

  int64_t Best(size_t begin, size_t count) const {
    size_t best = count;
    for (size_t j = 0; j < count; ++j) {
      if (!Legal(begin + j)) continue;
      if (best == count || logit_[begin + j] > logit_[begin + best]) best = j;
    }
    return static_cast<int64_t>(best);
  }

  double EntropyOf(size_t begin, size_t count) const {
    double sum = 0;
    for (size_t j = begin; j < begin + count; ++j) {
      if (prob_[j] > 0) sum -= static_cast<double>(prob_[j]) * log_prob_[j];
    }
    return sum;
  }

  absl::Span<int64_t> Actions(const MutableColumnsView& out) const {
    const absl::Span<int64_t> action = out.column<int64_t>(0);
    DING_CHECK(action.size() >= rows_ * counts_.size()) << action.size() << " and " << rows_;
    return action;
  }

  size_t Taken(absl::Span<const int64_t> action, size_t row, size_t element, size_t count) const {
    const int64_t taken = action[row * counts_.size() + element];
    DING_CHECK(taken >= 0 && static_cast<size_t>(taken) < count)
        << "action " << taken << " of " << count << ", row " << row;
    return static_cast<size_t>(taken);
  }

  void CheckRows(size_t rows) const { DING_CHECK(rows == rows_) << rows << " and " << rows_; }

  const std::vector<int64_t> counts_;
  const size_t width_;
  const FieldSpec head_;
  const std::vector<FieldSpec> fields_;

  // The number of rows of the last Set().
  size_t rows_ = 0;
  absl::Span<const float> logit_;
  absl::Span<const uint8_t> mask_;
  std::vector<float> prob_;
  std::vector<float> log_prob_;
};

// Independent normals; a subclass says how they become actions in [-1, 1].
class NormalDistribution : public ActionDistribution {
 public:
  NormalDistribution(const FieldSpec& action, double initial_log_std)
      : width_(static_cast<size_t>(action.num_elements())),
        head_(Box("mean", action.shape)),
        fields_{action, Box("raw_action", action.shape)},
        info_{{"log_std", {static_cast<int64_t>(width_)}, 0}},
        scale_(action),
        log_std_(width_, static_cast<float>(initial_log_std)),
        d_log_std_(width_, 0.0f),
        std_(width_, 0.0) {}

  const FieldSpec& head() const override { return head_; }
  absl::Span<const FieldSpec> sample_fields() const override { return fields_; }
  absl::Span<const ParameterInfo> parameter_info() const override { return info_; }
  absl::Span<float> parameters() override { return absl::MakeSpan(log_std_); }
  absl::Span<float> gradients() override { return absl::MakeSpan(d_log_std_); }

  absl::Status Set(absl::Span<const float> head, absl::Span<const uint8_t> mask) override {
    DING_CHECK(mask.empty()) << "a mask for continuous actions";
    DING_RETURN_IF_ERROR(CheckHead(head_, head));
    mean_ = head;
    rows_ = RowCount(head.size(), width_);
    for (size_t i = 0; i < width_; ++i) std_[i] = std::exp(static_cast<double>(log_std_[i]));
    return absl::OkStatus();
  }

  void Sample(Rng* rng, const MutableColumnsView& out) override {
    const absl::Span<float> action = out.column<float>(0);
    const absl::Span<float> raw = out.column<float>(1);
    ForEach([&](size_t at, size_t i) {
      raw[at] = static_cast<float>(mean_[at] + std_[i] * rng->Normal());
      action[at] = scale_.FromUnit(ToUnit(raw[at]), i);
    });
  }

  void Mode(const MutableColumnsView& out) override {
    const absl::Span<float> action = out.column<float>(0);
    ForEach([&](size_t at, size_t i) { action[at] = scale_.FromUnit(ToUnit(mean_[at]), i); });
  }

  void LogProb(const ColumnsView& rows, int field, absl::Span<float> log_prob) override {
    DING_CHECK(log_prob.size() == rows_) << log_prob.size() << " and " << rows_;
    const absl::Span<const float> raw = rows.column<float>(field);
    for (size_t row = 0; row < rows_; ++row) {
      double sum = 0;
      for (size_t i = 0; i < width_; ++i) {
        const double u = Deviation(raw, row * width_ + i, i);
        sum -= 0.5 * (u * u + kLogTwoPi) + log_std_[i];
      }
      log_prob[row] = static_cast<float>(sum);
    }
  }

  void Entropy(absl::Span<float> entropy) override {
    DING_CHECK(entropy.size() == rows_) << entropy.size() << " and " << rows_;
    double sum = 0;
    for (const float log_std : log_std_) sum += 0.5 * (1 + kLogTwoPi) + log_std;
    std::fill(entropy.begin(), entropy.end(), static_cast<float>(sum));
  }

  void Backward(const ColumnsView& rows, int field, absl::Span<const float> d_log_prob,
                absl::Span<const float> d_entropy, absl::Span<float> d_head) override {
    DING_CHECK(d_log_prob.size() == rows_ && d_entropy.size() == rows_ &&
               d_head.size() == rows_ * width_)
        << d_log_prob.size() << ", " << d_entropy.size() << " and " << d_head.size() << " for "
        << rows_ << " rows";
    const absl::Span<const float> raw = rows.column<float>(field);
    for (size_t i = 0; i < width_; ++i) {
      double d_log_std = 0;
      for (size_t row = 0; row < rows_; ++row) {
        const size_t at = row * width_ + i;
        const double u = Deviation(raw, at, i);
        d_head[at] = static_cast<float>(d_log_prob[row] * u / std_[i]);
        d_log_std += d_log_prob[row] * (u * u - 1) + d_entropy[row];
      }
      d_log_std_[i] = static_cast<float>(d_log_std);
    }
  }

  double ImitationLoss(const ColumnsView& rows, int field, absl::Span<float> d_head) override {
    DING_CHECK(d_head.size() == mean_.size() && rows.rows() == static_cast<int64_t>(rows_))
        << d_head.size() << " and " << rows.rows() << " for " << rows_ << " rows";
    const absl::Span<const float> action = rows.column<float>(field);
    const double scale = 1 / static_cast<double>(rows_ * width_);
    double sum = 0;
    ForEach([&](size_t at, size_t i) {
      const double error = ToUnit(mean_[at]) - scale_.ToUnit(action[at], i);
      d_head[at] = static_cast<float>(2 * scale * error * UnitSlope(mean_[at]));
      sum += error * error;
    });
    return sum * scale;
  }

 protected:
  // The action in units of half its range, as far as it is within [-1, 1], and its derivative,
  // which learning takes for that of what is beyond, too.
  virtual float ToUnit(float raw) const = 0;
  virtual double UnitSlope(float raw) const = 0;

  size_t width() const { return width_; }
  size_t rows() const { return rows_; }
  double mean(size_t at) const { return mean_[at]; }
  double std_of(size_t i) const { return std_[i]; }
  void AddToLogStdGradient(size_t i, double value) {
    d_log_std_[i] = static_cast<float>(d_log_std_[i] + value);
  }

 private:
  // Calls f(at, i) for element i of each row, where `at` is its index in the column.
  template <typename F>
  void ForEach(const F& f) {
    for (size_t at = 0; at < rows_ * width_; ++at) f(at, at % width_);
  }

  double Deviation(absl::Span<const float> raw, size_t at, size_t i) const {
    return (static_cast<double>(raw[at]) - mean_[at]) / std_[i];
  }

  const size_t width_;
  const FieldSpec head_;
  const std::vector<FieldSpec> fields_;
  const std::vector<ParameterInfo> info_;
  const ActionScale scale_;
  std::vector<float> log_std_;
  std::vector<float> d_log_std_;

  // The number of rows of the last Set().
  size_t rows_ = 0;
  absl::Span<const float> mean_;
  std::vector<double> std_;
};

class ClippedNormal final : public NormalDistribution {
 public:
  using NormalDistribution::NormalDistribution;

 protected:
  float ToUnit(float raw) const override { return raw; }
  double UnitSlope(float /*raw*/) const override { return 1; }
};

// The nodes above 0 of the Gauss-Hermite sum of 20 nodes for the standard normal distribution, and
// their weights, as far as these are above 1e-9; those below 0 are symmetric.
struct Node {
  double z;
  double weight;
};
constexpr Node kNodes[] = {
    {0.346964157081356, 0.26079306344955494},    {1.0429453488027511, 0.16173933398399995},
    {1.7452473208141268, 0.061506372063976855},  {2.4586636111723674, 0.013997837447101032},
    {3.1890148165533896, 0.0018301031310804915}, {3.9439673506573163, 0.00012882627996192936},
    {4.734581334046055, 4.402121090230859e-06},  {5.578738805893201, 6.12749025998298e-08}};
constexpr double kLogTwo = 0.6931471805599453;

// log(1 - tanh(x)^2), the logarithm of the derivative of tanh.
double LogSlopeOfTanh(double x) {
  return 2 * (kLogTwo - std::abs(x) - std::log1p(std::exp(-2 * std::abs(x))));
}

class SquashedNormalDistribution final : public NormalDistribution {
 public:
  using NormalDistribution::NormalDistribution;

  void LogProb(const ColumnsView& rows, int field, absl::Span<float> log_prob) override {
    NormalDistribution::LogProb(rows, field, log_prob);
    const absl::Span<const float> raw = rows.column<float>(field);
    for (size_t row = 0; row < log_prob.size(); ++row) {
      double sum = 0;
      for (size_t i = 0; i < width(); ++i) sum += LogSlopeOfTanh(raw[row * width() + i]);
      log_prob[row] = static_cast<float>(log_prob[row] - sum);
    }
  }

  void Entropy(absl::Span<float> entropy) override {
    NormalDistribution::Entropy(entropy);
    for (size_t row = 0; row < entropy.size(); ++row) {
      double sum = 0;
      for (size_t i = 0; i < width(); ++i) {
        for (const Node& node : kNodes) {
          const double deviation = std_of(i) * node.z;
          const double mean_of_row = mean(row * width() + i);
          sum += node.weight * (LogSlopeOfTanh(mean_of_row + deviation) +
                                LogSlopeOfTanh(mean_of_row - deviation));
        }
      }
      entropy[row] = static_cast<float>(entropy[row] + sum);
    }
  }

  void Backward(const ColumnsView& rows, int field, absl::Span<const float> d_log_prob,
                absl::Span<const float> d_entropy, absl::Span<float> d_head) override {
    NormalDistribution::Backward(rows, field, d_log_prob, d_entropy, d_head);
    for (size_t i = 0; i < width(); ++i) {
      double d_log_std = 0;
      for (size_t row = 0; row < this->rows(); ++row) {
        if (d_entropy[row] == 0) continue;
        const size_t at = row * width() + i;
        double by_mean = 0;
        for (const Node& node : kNodes) {
          const double deviation = std_of(i) * node.z;
          const double above = -2 * std::tanh(mean(at) + deviation);
          const double below = -2 * std::tanh(mean(at) - deviation);
          by_mean += node.weight * (above + below);
          d_log_std += d_entropy[row] * node.weight * deviation * (above - below);
        }
        d_head[at] = static_cast<float>(d_head[at] + d_entropy[row] * by_mean);
      }
      AddToLogStdGradient(i, d_log_std);
    }
  }

 protected:
  float ToUnit(float raw) const override { return std::tanh(raw); }
  double UnitSlope(float raw) const override {
    const double action = std::tanh(static_cast<double>(raw));
    return 1 - action * action;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<ActionDistribution>> ActionDistribution::Create(
    const Spec& action, double initial_log_std, bool squash) {
  if (action.size() == 1 && action.field(0).name == kAction) {
    const FieldSpec& field = action.field(0);
    if (field.is_discrete() && squash) {
      return absl::InvalidArgumentError(
          absl::StrCat("squash_actions is set, but the actions are categories (",
                       field.DebugString(), "), which have no bounds: remove it"));
    }
    if (field.is_discrete()) {
      double logits = 0;  // their number may not fit 64 bits
      for (const int64_t count : CategoryCounts(field)) logits += static_cast<double>(count);
      if (logits > kMaxLogits) {
        return absl::InvalidArgumentError(absl::StrCat("the actions have ", logits, " categories (",
                                                       field.DebugString(), "), expected at most ",
                                                       kMaxLogits));
      }
      return std::make_unique<Categorical>(field);
    }
    if (ActionScale::Fits(field)) {
      if (squash) return std::make_unique<SquashedNormalDistribution>(field, initial_log_std);
      return std::make_unique<ClippedNormal>(field, initial_log_std);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no distribution for the action space\n", action.DebugString(),
                   "\nexpected one field 'action': int64 categories, or a float32 box with finite "
                   "bounds"));
}

}  // namespace ding
