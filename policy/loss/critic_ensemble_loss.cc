#include "ding_worker/policy/loss/critic_ensemble_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

void CheckLengths(const CriticLossInput& input, absl::Span<float> td_error,
                  const MutableCriticColumns& d_q) {
  const size_t rows = input.reward.size();
  DING_CHECK(!input.q.empty() && input.q.size() == d_q.size())
      << input.q.size() << " critics and " << d_q.size() << " gradients";
  for (size_t k = 0; k < input.q.size(); ++k) {
    DING_CHECK(input.q[k].size() == rows && d_q[k].size() == rows)
        << "critic " << k << " of " << rows << " rows";
  }
  DING_CHECK(rows > 0 && input.discount.size() == rows && input.next_value.size() == rows &&
             td_error.size() == rows && (input.weight.empty() || input.weight.size() == rows))
      << "columns of different lengths; reward has " << rows;
}

}  // namespace

CriticLossResult ComputeCriticLoss(const CriticLossInput& input, absl::Span<float> td_error,
                                   const MutableCriticColumns& d_q) {
  CheckLengths(input, td_error, d_q);
  const size_t rows = input.reward.size();
  const double scale = 1.0 / static_cast<double>(rows);
  const double critic_scale = 1.0 / static_cast<double>(input.q.size());
  CriticLossResult sum;
  for (size_t i = 0; i < rows; ++i) {
    const double target =
        input.reward[i] + static_cast<double>(input.discount[i]) * input.next_value[i];
    const double weight = input.weight.empty() ? 1.0 : input.weight[i];
    double absolute = 0;
    for (size_t k = 0; k < input.q.size(); ++k) {
      const double q = input.q[k][i];
      const double td = q - target;
      d_q[k][i] = static_cast<float>(2 * weight * td * scale);
      sum.loss += weight * td * td;
      sum.mean_q += q;
      absolute += std::abs(td);
    }
    td_error[i] = static_cast<float>(absolute * critic_scale);
    sum.mean_target += target;
  }
  return {sum.loss * scale, sum.mean_q * scale * critic_scale, sum.mean_target * scale};
}

void MinOverCritics(const CriticColumns& q, absl::Span<const int> members,
                    absl::Span<float> value) {
  DING_CHECK(!members.empty()) << "no critic";
  for (size_t m = 0; m < members.size(); ++m) {
    DING_CHECK(members[m] >= 0 && static_cast<size_t>(members[m]) < q.size())
        << "critic " << members[m] << " of " << q.size();
    const absl::Span<const float> column = q[static_cast<size_t>(members[m])];
    DING_CHECK(column.size() == value.size()) << column.size() << " and " << value.size();
    for (size_t i = 0; i < value.size(); ++i) {
      value[i] = m == 0 ? column[i] : std::min(value[i], column[i]);
    }
  }
}

}  // namespace ding
