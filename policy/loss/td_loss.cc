#include "ding_worker/policy/loss/td_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

void CheckLengths(const TdLossInput& input, absl::Span<float> td_error, absl::Span<float> d_q) {
  const size_t rows = input.action.size();
  DING_CHECK(rows > 0 && !input.q.empty() && input.q.size() % rows == 0)
      << input.q.size() << " q values for " << rows << " rows";
  DING_CHECK(input.reward.size() == rows && input.discount.size() == rows &&
             input.next_value.size() == rows && td_error.size() == rows)
      << "columns of different lengths; action has " << rows;
  DING_CHECK(input.weight.empty() || input.weight.size() == rows)
      << input.weight.size() << " weights for " << rows << " rows";
  DING_CHECK(d_q.size() == input.q.size()) << d_q.size() << " and " << input.q.size();
}

}  // namespace

TdPenalty PenaltyOf(double td, const TdLossOptions& options) {
  if (options.kind == TdLossKind::kMse) return {td * td, 2 * td};
  const double delta = options.huber_delta;
  if (std::abs(td) <= delta) return {0.5 * td * td, td};
  return {delta * (std::abs(td) - 0.5 * delta), std::copysign(delta, td)};
}

TdLossResult ComputeTdLoss(const TdLossInput& input, const TdLossOptions& options,
                           absl::Span<float> td_error, absl::Span<float> d_q) {
  CheckLengths(input, td_error, d_q);
  const int64_t rows = static_cast<int64_t>(input.action.size());
  const int64_t num_actions = static_cast<int64_t>(input.q.size()) / rows;
  std::fill(d_q.begin(), d_q.end(), 0.0f);
  TdLossResult sum;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t action = input.action[i];
    DING_CHECK(action >= 0 && action < num_actions) << "action " << action << " of " << num_actions;
    const int64_t chosen = i * num_actions + action;
    const double q = input.q[chosen];
    const double target =
        input.reward[i] + static_cast<double>(input.discount[i]) * input.next_value[i];
    const double weight = input.weight.empty() ? 1.0 : input.weight[i];
    const TdPenalty penalty = PenaltyOf(q - target, options);
    td_error[i] = static_cast<float>(q - target);
    d_q[chosen] = static_cast<float>(weight * penalty.slope / static_cast<double>(rows));
    sum.loss += weight * penalty.value;
    sum.mean_q += q;
    sum.mean_next_value += input.next_value[i];
  }
  const double scale = 1.0 / static_cast<double>(rows);
  return {sum.loss * scale, sum.mean_q * scale, sum.mean_next_value * scale};
}

void SelectMaxValue(absl::Span<const float> q, int64_t num_actions, absl::Span<float> value,
                    absl::Span<const uint8_t> mask) {
  SelectDoubleQValue(q, q, num_actions, value, mask);
}

void SelectDoubleQValue(absl::Span<const float> online_q, absl::Span<const float> target_q,
                        int64_t num_actions, absl::Span<float> value,
                        absl::Span<const uint8_t> mask) {
  const auto actions = static_cast<size_t>(num_actions);
  const size_t rows = online_q.size() / actions;
  const size_t width = rows == 0 ? 1 : value.size() / rows;
  DING_CHECK(online_q.size() == rows * actions && value.size() == rows * width &&
             target_q.size() == online_q.size() * width &&
             (mask.empty() || mask.size() == online_q.size()))
      << online_q.size() << " and " << target_q.size() << " q values, " << mask.size()
      << " elements of the mask, for " << value.size() << " values of " << num_actions
      << " actions";
  for (size_t i = 0; i < rows; ++i) {
    const size_t row = i * actions;
    const int64_t best =
        Argmax(online_q.subspan(row, actions), mask.empty() ? mask : mask.subspan(row, actions));
    float* const to = value.data() + i * width;
    if (best < 0) {
      std::fill_n(to, width, 0.0f);
    } else {
      std::copy_n(target_q.data() + (row + static_cast<size_t>(best)) * width, width, to);
    }
  }
}

int64_t Argmax(absl::Span<const float> values, absl::Span<const uint8_t> mask) {
  DING_CHECK(!values.empty()) << "no value to choose from";
  if (mask.empty()) return std::max_element(values.begin(), values.end()) - values.begin();
  DING_CHECK(mask.size() == values.size()) << mask.size() << " and " << values.size();
  int64_t best = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (mask[i] == 0) continue;
    if (best < 0 || values[i] > values[static_cast<size_t>(best)]) best = static_cast<int64_t>(i);
  }
  return best;
}

double AddCqlPenalty(const CqlPenaltyInput& input, double alpha, absl::Span<float> d_q) {
  const size_t rows = input.action.size();
  DING_CHECK(rows > 0 && !input.q.empty() && input.q.size() % rows == 0 &&
             d_q.size() == input.q.size())
      << input.q.size() << " q values and " << d_q.size() << " gradients for " << rows << " rows";
  DING_CHECK((input.weight.empty() || input.weight.size() == rows) &&
             (input.mask.empty() || input.mask.size() == input.q.size()))
      << input.weight.size() << " weights and " << input.mask.size() << " elements of the mask";
  const size_t num_actions = input.q.size() / rows;
  double penalty = 0;
  for (size_t i = 0; i < rows; ++i) {
    const size_t begin = i * num_actions;
    const auto action = static_cast<size_t>(input.action[i]);
    DING_CHECK(action < num_actions) << "action " << action << " of " << num_actions;
    const auto legal = [&](size_t a) { return input.mask.empty() || input.mask[begin + a] != 0; };
    double max = input.q[begin + action];
    for (size_t a = 0; a < num_actions; ++a) {
      if (legal(a) && input.q[begin + a] > max) max = input.q[begin + a];
    }
    double sum = 0;
    for (size_t a = 0; a < num_actions; ++a) {
      if (legal(a)) sum += std::exp(input.q[begin + a] - max);
    }
    const double scale =
        alpha * (input.weight.empty() ? 1.0 : input.weight[i]) / static_cast<double>(rows);
    penalty += scale * (max + std::log(sum) - input.q[begin + action]);
    for (size_t a = 0; a < num_actions; ++a) {
      if (!legal(a)) continue;
      const double probability = std::exp(input.q[begin + a] - max) / sum;
      d_q[begin + a] += static_cast<float>(scale * (probability - (a == action ? 1 : 0)));
    }
  }
  return penalty;
}

}  // namespace ding
