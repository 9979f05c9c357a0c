// A normal distribution that tanh squashes into (-1, 1): the actions of soft actor-critic, their
// log-probabilities, and the gradients of both by the outputs of the actor's network.
//
//   u = mean + std noise     std = exp(clip(log_std, kMinLogStd, kMaxLogStd))
//   a = tanh(u)
//   log_prob = sum over elements of -noise^2 / 2 - log std - log(2 pi) / 2 - log(1 - a^2)
//
// With G = d loss / d a and L = d loss / d log_prob, where the noise is constant:
//   d loss / d u       = G (1 - a^2) + 2 L a
//   d loss / d mean    = d loss / d u
//   d loss / d log_std = d loss / d u std noise - L        0 where log_std is clipped
// Source: Haarnoja et al. 2018b ("Soft actor-critic algorithms and applications"), appendix C. The logarithm
// is computed as log(1 - tanh(u)^2) = 2 (log 2 - |u| - log(1 + exp(-2 |u|))), which does not overflow.
//
// Shapes: columns [B, n], row-major; log_prob [B].
// Errors: columns of other lengths are a mistake of the caller and end the program.
// Ownership: owns working memory, which grows with the largest batch. The arguments of Sample() must stay
//            unchanged until Backward().
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_CONTINUOUS_SQUASHED_NORMAL_H_
#define DING_WORKER_POLICY_CONTINUOUS_SQUASHED_NORMAL_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace ding {

inline constexpr float kMinLogStd = -20;
inline constexpr float kMaxLogStd = 2;

// action = tanh(mean), the most probable one before the squashing. The spans may be the same.
void SquashMean(absl::Span<const float> mean, absl::Span<float> action);
// The gradient of SquashMean(): d_mean = d_action (1 - action^2). The spans may be the same.
void SquashMeanBackward(absl::Span<const float> action, absl::Span<const float> d_action,
                        absl::Span<float> d_mean);

class SquashedNormal {
 public:
  // `width` is the number of elements of an action, n.
  explicit SquashedNormal(size_t width) : width_(width) {}

  // Writes the actions of these standard normal numbers to `action` [B, n] and their log-probabilities to
  // `log_prob` [B], unless that is empty.
  void Sample(absl::Span<const float> mean, absl::Span<const float> log_std,
              absl::Span<const float> noise, absl::Span<float> action, absl::Span<float> log_prob);
  // Writes the gradients by the arguments of the last Sample().
  void Backward(absl::Span<const float> d_action, absl::Span<const float> d_log_prob,
                absl::Span<float> d_mean, absl::Span<float> d_log_std) const;

 private:
  const size_t width_;
  // The arguments and results of the last Sample().
  absl::Span<const float> log_std_;
  absl::Span<const float> noise_;
  absl::Span<const float> action_;
  std::vector<float> std_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_SQUASHED_NORMAL_H_
