// Checks the gradients of a loss in tests: against finite differences, or against another
// implementation of the same loss.
//
// Example, for your own loss of dqn written by hand, and the same loss by autograd:
//   RandomLossInput columns(RandomLossInput::kDqn, /*rows=*/32, /*seed=*/1);
//   ExpectGradientsOf(&by_hand, columns.input());
//   ExpectSameLoss(autograd.get(), &by_hand, columns.input());
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_GRADIENT_CHECK_H_
#define DING_WORKER_POLICY_GRADIENT_CHECK_H_

#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/loss/loss_function.h"

namespace ding {

// Expects `gradients` to be the gradients of `loss` by `values`. Moves each value by `step` to
// either side and restores it. `loss` may overwrite the gradients.
void ExpectGradientsOf(const std::function<double()>& loss, absl::Span<float> values,
                       absl::Span<const float> gradients, float step, double tolerance);

// Does the same for all outputs of a loss of your own. `tolerance` applies to the gradient times
// the number of rows.
void ExpectGradientsOf(LossFunction* loss, const LossInput& input, float step = 1.0f / 256,
                       double tolerance = 2e-3);

// Expects the same loss, gradients and, if both have them, td errors. The difference may be at most
// `tolerance` times the largest element of the gradient of an output, or of the td errors.
void ExpectSameLoss(LossFunction* found, LossFunction* expected, const LossInput& input,
                    double tolerance = 1e-5);

// Random columns of a loss (policy/loss/loss_function.h), for 3 discrete actions (kDqn), or 2
// critics and actions of 2 elements. Importance weights differ between rows. The last row is
// padding, for policies that have padding.
class RandomLossInput {
 public:
  enum Place { kDqn, kActorCritic, kCritics, kActor };
  RandomLossInput(Place place, int64_t rows, uint64_t seed);
  RandomLossInput(const RandomLossInput&) = delete;
  RandomLossInput& operator=(const RandomLossInput&) = delete;

  const LossInput& input() const { return input_; }
  LossInput* mutable_input() { return &input_; }

 private:
  std::vector<float>& Draw(int64_t width, double low, double high);
  void AddOutput(const char* name, double low, double high, int64_t width = 0);

  Rng rng_;
  LossInput input_;
  std::list<std::vector<float>> columns_;
  std::vector<int64_t> action_;
  std::vector<uint8_t> mask_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_GRADIENT_CHECK_H_
