#include "ding_worker/policy/loss/actor_critic_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/algorithm/container.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

bool IsPadding(absl::Span<const uint8_t> mask, size_t row) {
  return !mask.empty() && mask[row] == 0;
}

// The number of rows that are not padding.
double CountRows(size_t rows, absl::Span<const uint8_t> mask) {
  return static_cast<double>(mask.empty() ? rows : rows - absl::c_count(mask, 0));
}

void CheckLengths(const ActorCriticLossInput& input, const ActorCriticLossGradient& gradient) {
  const size_t rows = input.log_prob.size();
  DING_CHECK(rows > 0 && input.entropy.size() == rows && input.value.size() == rows &&
             input.old_log_prob.size() == rows && input.old_value.size() == rows &&
             input.advantage.size() == rows && input.returns.size() == rows &&
             (input.mask.empty() || input.mask.size() == rows))
      << "columns of different lengths; log_prob has " << rows;
  DING_CHECK(gradient.d_log_prob.size() == rows && gradient.d_entropy.size() == rows &&
             gradient.d_value.size() == rows)
      << "gradients of different lengths for " << rows << " rows";
}

// The term of the value loss and its derivative by value.
PolicyTerm ValueTerm(double value, double old_value, double target, double clip) {
  const double error = value - target;
  const PolicyTerm plain = {0.5 * error * error, error};
  if (clip <= 0) return plain;
  const double move = std::clamp(value - old_value, -clip, clip);
  const double clipped_error = old_value + move - target;
  const double clipped = 0.5 * clipped_error * clipped_error;
  if (clipped <= plain.value) return plain;
  return {clipped, std::abs(value - old_value) < clip ? clipped_error : 0};
}

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

ActorCriticLossResult ComputeActorCriticLoss(
    const ActorCriticLossInput& input, const ActorCriticLossOptions& options,
    const ActorCriticLossGradient& gradient,
    absl::FunctionRef<PolicyTerm(size_t row, double ratio)> term) {
  CheckLengths(input, gradient);
  const double rows = CountRows(input.log_prob.size(), input.mask);
  DING_CHECK(rows > 0) << "all " << input.log_prob.size() << " rows are padding";
  const double scale = 1.0 / rows;
  ActorCriticLossResult sum;
  for (size_t i = 0; i < input.log_prob.size(); ++i) {
    if (IsPadding(input.mask, i)) {
      gradient.d_log_prob[i] = gradient.d_value[i] = gradient.d_entropy[i] = 0;
      continue;
    }
    const double log_ratio = static_cast<double>(input.log_prob[i]) - input.old_log_prob[i];
    const double ratio = std::exp(log_ratio);
    const PolicyTerm policy = term(i, ratio);
    const PolicyTerm value =
        ValueTerm(input.value[i], input.old_value[i], input.returns[i], options.value_clip);
    gradient.d_log_prob[i] = static_cast<float>(scale * policy.slope);
    gradient.d_value[i] = static_cast<float>(scale * options.value_coef * value.slope);
    gradient.d_entropy[i] = static_cast<float>(-scale * options.entropy_coef);
    sum.policy_loss += policy.value;
    sum.value_loss += value.value;
    sum.entropy += input.entropy[i];
    sum.approx_kl += ratio - 1 - log_ratio;
    if (std::abs(ratio - 1) > options.ratio_clip) sum.clip_fraction += 1;
  }
  sum.policy_loss *= scale;
  sum.value_loss *= scale;
  sum.entropy *= scale;
  sum.approx_kl *= scale;
  sum.clip_fraction *= scale;
  sum.loss =
      sum.policy_loss + options.value_coef * sum.value_loss - options.entropy_coef * sum.entropy;
  return sum;
}

PolicyTerm PpoTerm(double ratio, double advantage, double ratio_clip) {
  const double clipped = std::clamp(ratio, 1 - ratio_clip, 1 + ratio_clip) * advantage;
  // The clipped term does not depend on the ratio.
  if (clipped < ratio * advantage) return {-clipped, 0};
  return {-ratio * advantage, -ratio * advantage};
}

LossInput AsLossInput(const ActorCriticLossInput& input, const ActorCriticLossOptions& options,
                      const ActorCriticLossGradient& gradient) {
  LossInput own;
  own.rows = static_cast<int64_t>(input.log_prob.size());
  own.batch = {{"adv", input.advantage}, {"return", input.returns}};
  own.outputs = {{"log_prob", input.log_prob, gradient.d_log_prob},
                 {"entropy", input.entropy, gradient.d_entropy},
                 {"value", input.value, gradient.d_value}};
  own.target = {{"log_prob", input.old_log_prob}, {"value", input.old_value}};
  own.numbers = {{"value_weight", options.value_coef},
                 {"entropy_weight", options.entropy_coef},
                 {"clip_ratio", options.ratio_clip},
                 {"value_clip", options.value_clip}};
  own.mask = input.mask;
  return own;
}

ActorCriticLossResult ComputePpoLoss(const ActorCriticLossInput& input,
                                     const ActorCriticLossOptions& options,
                                     const ActorCriticLossGradient& gradient) {
  return ComputeActorCriticLoss(input, options, gradient, [&](size_t i, double ratio) {
    return PpoTerm(ratio, input.advantage[i], options.ratio_clip);
  });
}

ActorCriticLossResult ComputeA2cLoss(const ActorCriticLossInput& input,
                                     const ActorCriticLossOptions& options,
                                     const ActorCriticLossGradient& gradient) {
  ActorCriticLossResult result = ComputeActorCriticLoss(
      input, options, gradient, [&input](size_t i, double /*ratio*/) -> PolicyTerm {
        const double advantage = input.advantage[i];
        return {-advantage * input.log_prob[i], -advantage};
      });
  result.clip_fraction = 0;
  return result;
}

void NormalizeAdvantages(absl::Span<float> advantage, absl::Span<const uint8_t> mask) {
  const double count = CountRows(advantage.size(), mask);
  double sum = 0;
  for (size_t i = 0; i < advantage.size(); ++i) {
    if (!IsPadding(mask, i)) sum += advantage[i];
  }
  const double mean = sum / count;
  double squares = 0;
  for (size_t i = 0; i < advantage.size(); ++i) {
    if (!IsPadding(mask, i)) squares += (advantage[i] - mean) * (advantage[i] - mean);
  }
  const double scale = 1 / (std::sqrt(squares / count) + 1e-8);
  for (float& value : advantage) value = static_cast<float>((value - mean) * scale);
}

ImpalaLossResult ComputeImpalaLoss(const ImpalaLossInput& input, const ImpalaLossOptions& options,
                                   const ImpalaLossOutput& output) {
  CheckLengths(input, output);
  const VTraceInput& rows = input.rows;
  const size_t length = static_cast<size_t>(input.length);
  ImpalaLossResult sum;
  for (size_t begin = 0; begin < rows.reward.size(); begin += length) {
    size_t count = 0;
    while (count < length && !IsPadding(input.mask, begin + count)) ++count;
    ComputeTargets(rows, options, begin, count, output);
    sum.rows += static_cast<int64_t>(count);
  }
  DING_CHECK(sum.rows > 0) << "all " << rows.reward.size() << " rows are padding";
  const double scale = 1.0 / static_cast<double>(sum.rows);
  for (size_t i = 0; i < rows.reward.size(); ++i) {
    if (IsPadding(input.mask, i)) {
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
