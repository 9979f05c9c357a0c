#include "ding_worker/policy/loss/r2d2_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

void CheckLengths(const SequenceRows& rows, size_t count) {
  DING_CHECK(rows.length >= 1 && count % static_cast<size_t>(rows.length) == 0 &&
             rows.burn_in >= 0 && rows.burn_in < rows.length)
      << count << " rows in sequences of " << rows.length << ", burn-in " << rows.burn_in;
  DING_CHECK((rows.mask.empty() || rows.mask.size() == count) &&
             (rows.is_first.empty() || rows.is_first.size() == count))
      << count << " rows, but mask has " << rows.mask.size() << " and is_first has "
      << rows.is_first.size();
}

void CheckLengths(const R2d2LossInput& input, size_t sequences, size_t count,
                  absl::Span<float> td_error, absl::Span<float> d_q, absl::Span<float> priority) {
  DING_CHECK(count > 0 && !input.q.empty() && input.q.size() % count == 0)
      << input.q.size() << " q values for " << count << " rows";
  DING_CHECK(input.reward.size() == count && input.discount.size() == count &&
             input.next_value.size() == count && td_error.size() == count)
      << "columns of different lengths; action has " << count;
  DING_CHECK((input.weight.empty() || input.weight.size() == sequences) &&
             priority.size() == sequences)
      << input.weight.size() << " weights and " << priority.size() << " priorities for "
      << sequences << " sequences";
  DING_CHECK(d_q.size() == input.q.size()) << d_q.size() << " and " << input.q.size();
}

int64_t CountLearnedRows(const SequenceRows& rows, int64_t count) {
  int64_t learned = 0;
  for (int64_t row = 0; row < count; ++row) learned += rows.IsLearned(row) ? 1 : 0;
  return learned;
}

// Maximum and sum of |td| over rows.
struct AbsoluteErrors {
  double max = 0;
  double sum = 0;
  int64_t count = 0;

  void Add(double td) {
    max = std::max(max, std::abs(td));
    sum += std::abs(td);
    ++count;
  }
  double Mixed(double eta) const {
    return count == 0 ? 0 : eta * max + (1 - eta) * sum / static_cast<double>(count);
  }
};

}  // namespace

double ValueScale::Rescale(double value) const {
  if (!eps.has_value()) return value;
  return std::copysign(std::sqrt(std::abs(value) + 1) - 1, value) + *eps * value;
}

double ValueScale::Invert(double value) const {
  if (!eps.has_value()) return value;
  // y = |value| solves eps s^2 + s - (y + 1 + eps) = 0 for s = sqrt(|x| + 1). This form of the root
  // has no difference of nearly equal numbers and holds for eps 0.
  const double c = std::abs(value) + 1 + *eps;
  const double s = 2 * c / (1 + std::sqrt(1 + 4 * *eps * c));
  return std::copysign(s * s - 1, value);
}

void ComputeSequenceReturns(const SequenceRows& rows, absl::Span<const float> reward,
                            absl::Span<const float> discount, int64_t n,
                            const SequenceReturns& returns) {
  CheckLengths(rows, reward.size());
  DING_CHECK(n >= 1 && discount.size() == reward.size() && returns.reward.size() == reward.size() &&
             returns.discount.size() == reward.size() && returns.end.size() == reward.size())
      << "windows of " << n << " rows, columns of different lengths; reward has " << reward.size();
  for (int64_t row = 0; row < static_cast<int64_t>(reward.size()); ++row) {
    double sum = 0;
    double scale = 1;
    int64_t end = row;
    while (true) {
      sum += scale * reward[static_cast<size_t>(end)];
      scale *= discount[static_cast<size_t>(end)];
      if (scale == 0 || end + 1 == row + n || !rows.Continues(end)) break;
      ++end;
    }
    const auto i = static_cast<size_t>(row);
    returns.reward[i] = static_cast<float>(sum);
    returns.discount[i] = static_cast<float>(scale);
    returns.end[i] = end;
  }
}

R2d2LossResult ComputeR2d2Loss(const SequenceRows& rows, const R2d2LossInput& input,
                               const R2d2LossOptions& options, absl::Span<float> td_error,
                               absl::Span<float> d_q, absl::Span<float> priority) {
  const size_t count = input.action.size();
  CheckLengths(rows, count);
  const size_t sequences = count / static_cast<size_t>(rows.length);
  CheckLengths(input, sequences, count, td_error, d_q, priority);
  const size_t num_actions = input.q.size() / count;
  std::fill(td_error.begin(), td_error.end(), 0.0f);
  std::fill(d_q.begin(), d_q.end(), 0.0f);
  R2d2LossResult result;
  result.learned_rows = CountLearnedRows(rows, static_cast<int64_t>(count));
  const double share =
      result.learned_rows == 0 ? 0 : 1.0 / static_cast<double>(result.learned_rows);
  for (size_t b = 0; b < sequences; ++b) {
    const double weight = input.weight.empty() ? 1.0 : input.weight[b];
    AbsoluteErrors errors;
    const size_t begin = b * static_cast<size_t>(rows.length);
    for (size_t i = begin; i < begin + static_cast<size_t>(rows.length); ++i) {
      if (!rows.IsLearned(static_cast<int64_t>(i))) continue;
      const int64_t action = input.action[i];
      DING_CHECK(action >= 0 && action < static_cast<int64_t>(num_actions))
          << "action " << action << " of " << num_actions;
      const size_t chosen = i * num_actions + static_cast<size_t>(action);
      const double q = input.q[chosen];
      const double next_value = input.discount[i] == 0 ? 0.0 : double{input.next_value[i]};
      const double target = options.scale.Rescale(
          input.reward[i] + double{input.discount[i]} * options.scale.Invert(next_value));
      const TdPenalty penalty = PenaltyOf(q - target, options.penalty);
      td_error[i] = static_cast<float>(q - target);
      d_q[chosen] = static_cast<float>(share * weight * penalty.slope);
      errors.Add(q - target);
      result.loss += share * weight * penalty.value;
      result.mean_q += share * q;
      result.mean_next_value += share * next_value;
    }
    priority[b] = static_cast<float>(errors.Mixed(options.priority_eta));
  }
  return result;
}

}  // namespace ding
