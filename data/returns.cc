#include "ding_worker/data/returns.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

// Returns V_T. This is a branch, not a factor, because the value after a terminated episode may be
// NaN.
double BootstrapValue(const RunColumns& run) {
  return run.end == SegmentEnd::kTerminated ? 0.0 : run.final_value;
}

void CheckLength(const char* column, size_t found, size_t expected) {
  DING_CHECK(found == expected) << column << " has " << found << " rows, reward has " << expected;
}

}  // namespace

NStepReturn ComputeNStepReturns(absl::Span<const float> rewards, SegmentEnd end, int64_t n,
                                double gamma, absl::Span<float> sums) {
  const size_t components = sums.size();
  DING_CHECK(components >= 1 && rewards.size() % components == 0)
      << rewards.size() << " rewards of " << components << " components";
  const int64_t available = static_cast<int64_t>(rewards.size() / components);
  DING_CHECK(n >= 1 && available >= 1) << n << "-step return of " << available << " rows";
  const int64_t steps = std::min(n, available);
  double discount = 1;
  for (size_t c = 0; c < components; ++c) {
    double sum = 0;
    discount = 1;
    for (int64_t i = 0; i < steps; ++i) {
      sum += discount * rewards[static_cast<size_t>(i) * components + c];
      discount *= gamma;
    }
    sums[c] = static_cast<float>(sum);
  }
  const bool terminated = end == SegmentEnd::kTerminated && steps == available;
  return {0, terminated ? 0.0f : static_cast<float>(discount), steps};
}

NStepReturn ComputeNStepReturn(absl::Span<const float> reward, SegmentEnd end, int64_t n,
                               double gamma) {
  float sum = 0;
  NStepReturn made = ComputeNStepReturns(reward, end, n, gamma, absl::MakeSpan(&sum, 1));
  made.reward = sum;
  return made;
}

void ComputeDiscountedReturns(const RunColumns& run, double gamma, absl::Span<float> returns) {
  CheckLength("returns", returns.size(), run.reward.size());
  double next = BootstrapValue(run);
  for (size_t t = run.reward.size(); t-- > 0;) {
    next = run.reward[t] + gamma * next;
    returns[t] = static_cast<float>(next);
  }
}

void ComputeLambdaReturns(const RunColumns& run, double gamma, double lambda,
                          absl::Span<float> returns) {
  CheckLength("value", run.value.size(), run.reward.size());
  CheckLength("returns", returns.size(), run.reward.size());
  double next_value = BootstrapValue(run);
  double next_return = next_value;
  for (size_t t = run.reward.size(); t-- > 0;) {
    next_return = run.reward[t] + gamma * ((1 - lambda) * next_value + lambda * next_return);
    next_value = run.value[t];
    returns[t] = static_cast<float>(next_return);
  }
}

void ComputeGae(const RunColumns& run, double gamma, double lambda, absl::Span<float> advantage) {
  CheckLength("value", run.value.size(), run.reward.size());
  CheckLength("advantage", advantage.size(), run.reward.size());
  double next_value = BootstrapValue(run);
  double next_advantage = 0;
  for (size_t t = run.reward.size(); t-- > 0;) {
    const double delta = run.reward[t] + gamma * next_value - run.value[t];
    next_advantage = delta + gamma * lambda * next_advantage;
    next_value = run.value[t];
    advantage[t] = static_cast<float>(next_advantage);
  }
}

void ComputeVTrace(const VTraceInput& input, const VTraceOptions& options, absl::Span<float> target,
                   absl::Span<float> pg_advantage) {
  const size_t steps = input.reward.size();
  CheckLength("behaviour_log_prob", input.behaviour_log_prob.size(), steps);
  CheckLength("log_prob", input.log_prob.size(), steps);
  CheckLength("discount", input.discount.size(), steps);
  CheckLength("value", input.value.size(), steps);
  CheckLength("next_value", input.next_value.size(), steps);
  CheckLength("end", input.end.size(), steps);
  CheckLength("target", target.size(), steps);
  CheckLength("pg_advantage", pg_advantage.size(), steps);
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
