#include "ding_worker/policy/impala/impala_loss.h"

#include <cmath>
#include <cstddef>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

void CheckLengths(const ImpalaLossInput& input, const ImpalaLossOutput& output) {
  const size_t rows = input.rows.reward.size();
  DING_CHECK(input.length >= 1 && rows % static_cast<size_t>(input.length) == 0)
      << rows << " rows as sequences of " << input.length;
  DING_CHECK(input.entropy.size() == rows && (input.mask.empty() || input.mask.size() == rows))
      << "columns of different lengths; reward has " << rows;
  DING_CHECK(output.target.size() == rows && output.pg_advantage.size() == rows &&
             output.d_log_prob.size() == rows && output.d_entropy.size() == rows &&
             output.d_value.size() == rows)
      << "outputs of different lengths for " << rows << " rows";
}

// Computes targets and advantages of rows [begin, begin + count), which are of one sequence.
void ComputeTargets(const VTraceInput& rows, const ImpalaLossOptions& options, size_t begin,
                    size_t count, const ImpalaLossOutput& output) {
  const auto log_prob = rows.log_prob.subspan(begin, count);
  ComputeVTrace({options.use_vtrace ? rows.behaviour_log_prob.subspan(begin, count) : log_prob,
                 log_prob, rows.reward.subspan(begin, count), rows.discount.subspan(begin, count),
                 rows.value.subspan(begin, count), rows.next_value.subspan(begin, count),
                 rows.end.subspan(begin, count)},
                options.vtrace, output.target.subspan(begin, count),
                output.pg_advantage.subspan(begin, count));
}

}  // namespace

ImpalaLossResult ComputeImpalaLoss(const ImpalaLossInput& input, const ImpalaLossOptions& options,
                                   const ImpalaLossOutput& output) {
  CheckLengths(input, output);
  const VTraceInput& rows = input.rows;
  const size_t length = static_cast<size_t>(input.length);
  const auto counts = [&input](size_t i) { return input.mask.empty() || input.mask[i] != 0; };
  ImpalaLossResult sum;
  for (size_t begin = 0; begin < rows.reward.size(); begin += length) {
    size_t count = 0;
    while (count < length && counts(begin + count)) ++count;
    ComputeTargets(rows, options, begin, count, output);
    sum.rows += static_cast<int64_t>(count);
  }
  DING_CHECK(sum.rows > 0) << "all " << rows.reward.size() << " rows are padding";
  const double scale = 1.0 / static_cast<double>(sum.rows);
  for (size_t i = 0; i < rows.reward.size(); ++i) {
    if (!counts(i)) {
      output.d_log_prob[i] = output.d_entropy[i] = output.d_value[i] = 0;
      continue;
    }
    const double log_ratio = static_cast<double>(rows.log_prob[i]) - rows.behaviour_log_prob[i];
    const double ratio = std::exp(log_ratio);
    const double advantage = output.pg_advantage[i];
    const double error = static_cast<double>(rows.value[i]) - output.target[i];
    output.d_log_prob[i] = static_cast<float>(-scale * advantage);
    output.d_value[i] = static_cast<float>(scale * options.value_coef * error);
    output.d_entropy[i] = static_cast<float>(-scale * options.entropy_coef);
    sum.policy_loss -= scale * advantage * rows.log_prob[i];
    sum.value_loss += scale * 0.5 * error * error;
    sum.entropy += scale * input.entropy[i];
    sum.approx_kl += scale * (ratio - 1 - log_ratio);
    sum.mean_ratio += scale * ratio;
    if (ratio > options.vtrace.rho_bar) sum.clip_fraction += scale;
  }
  sum.loss =
      sum.policy_loss + options.value_coef * sum.value_loss - options.entropy_coef * sum.entropy;
  return sum;
}

}  // namespace ding
