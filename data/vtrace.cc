#include "ding_worker/data/vtrace.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {

void ComputeVTrace(const VTraceInput& input, const VTraceOptions& options, absl::Span<float> target,
                   absl::Span<float> pg_advantage) {
  const size_t steps = input.reward.size();
  const auto check = [steps](const char* column, size_t found) {
    DING_CHECK(found == steps) << column << " has " << found << " rows, reward has " << steps;
  };
  check("behaviour_log_prob", input.behaviour_log_prob.size());
  check("log_prob", input.log_prob.size());
  check("discount", input.discount.size());
  check("value", input.value.size());
  check("next_value", input.next_value.size());
  check("end", input.end.size());
  check("target", target.size());
  check("pg_advantage", pg_advantage.size());
  double next_value = 0;
  double next_target = 0;
  for (size_t t = steps; t-- > 0;) {
    const double discount = input.discount[t];
    // This is a branch, not a factor, because the value after a terminated episode may be NaN.
    if (discount == 0) {
      next_value = next_target = 0;
    } else if (t + 1 == steps || input.end[t] != 0) {
      next_value = next_target = input.next_value[t];
    }
    const double ratio =
        std::exp(static_cast<double>(input.log_prob[t]) - input.behaviour_log_prob[t]);
    const double rho = std::min(options.rho_bar, ratio);
    const double c = options.lambda * std::min(options.c_bar, ratio);
    const double value = input.value[t];
    pg_advantage[t] = static_cast<float>(rho * (input.reward[t] + discount * next_target - value));
    // Remark 1 of the paper: v_t - V_t = delta_t + g_t c_t (v_(t+1) - V_(t+1)).
    const double delta = rho * (input.reward[t] + discount * next_value - value);
    next_target = value + delta + discount * c * (next_target - next_value);
    next_value = value;
    target[t] = static_cast<float>(next_target);
  }
}

}  // namespace ding
