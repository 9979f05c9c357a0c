// The temperature alpha of soft actor-critic: the weight of the entropy, which is learned so that
// the entropy of the policy becomes a target (policy/loss/off_policy_loss.h).
//
// Ownership: owns log alpha and its gradient; it must stay where it is while group() is used.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_TEMPERATURE_H_
#define DING_WORKER_POLICY_TEMPERATURE_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {

class Temperature {
 public:
  // `alpha` is the first value.
  Temperature(double alpha, double target_entropy)
      : log_alpha_(static_cast<float>(std::log(alpha))), target_entropy_(target_entropy) {}

  // kInvalidArgument unless `alpha` can be a first value.
  static absl::Status Check(double alpha) {
    if (alpha > 0 && std::isfinite(alpha)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("alpha is ", alpha, ", must be finite and above 0"));
  }

  double alpha() const { return std::exp(static_cast<double>(log_alpha_)); }
  double target_entropy() const { return target_entropy_; }
  void set_target_entropy(double target) { target_entropy_ = target; }

  // Returns log alpha as parameters of a learn mode; unless `learned` is set, alpha stays as it is.
  absl::StatusOr<TrainedGroup> MakeGroup(const AdamOptions& options, bool learned,
                                         int64_t period = 1) {
    DING_ASSIGN_OR_RETURN(GroupAdam adam, GroupAdam::Create({{"alpha_optimizer",
                                                              {},
                                                              absl::MakeSpan(&log_alpha_, 1),
                                                              absl::MakeSpan(&d_log_alpha_, 1)}},
                                                            options, /*grad_clip_norm=*/0));
    return TrainedGroup{std::move(adam), kAlphaRate, period, learned};
  }
  // Saves log alpha.
  void AddTo(TrainState* state) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    state->AddNumber(
        "log_alpha", -kInfinity, kInfinity, [this] { return log_alpha_; },
        [this](double read) { log_alpha_ = static_cast<float>(read); });
  }

  // Computes the gradient from the log-probabilities of actions, or from their means; returns the
  // mean entropy.
  double ComputeGradient(absl::Span<const float> log_prob) {
    const TemperatureLossResult result =
        ComputeTemperatureLoss(log_prob, log_alpha_, target_entropy_);
    d_log_alpha_ = static_cast<float>(result.d_log_alpha);
    return result.mean_entropy;
  }

 private:
  float log_alpha_;
  float d_log_alpha_ = 0;
  double target_entropy_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_TEMPERATURE_H_
