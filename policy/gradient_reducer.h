// Averages gradients of several learners that take their optimizer steps together: each computes
// gradients from its own rows, and all step by the mean. The creator of a policy passes a reducer in its
// context; the policy does not know the other learners.
//
//     rows of this learner ──► loss, gradients ──► Average() ──► clip, Adam ──► parameters
//                                                     ▲ │
//                                    the other learners' gradients
//
// Learners that begin with equal parameters and optimizers stay equal: the results of Average() are
// equal in all of them, bit for bit.
//
// Threads: thread-compatible; every learner must make the same calls in the same order.
#ifndef DING_WORKER_POLICY_GRADIENT_REDUCER_H_
#define DING_WORKER_POLICY_GRADIENT_REDUCER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ding {

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // Replaces `values`, which are in several pieces, by their mean over all learners, each weighted by
  // its `rows`: the mean of the gradients of parts of a batch is the gradient of the batch. The pieces
  // must have the same sizes in all learners. A learner whose step has failed must also call this, with
  // its error as `status`, because the others wait for it; the step then fails for all.
  //   `status`, if it is an error
  //   kAborted                               another learner's step failed; values are unspecified
  //   kUnavailable, kDeadlineExceeded ...    a learner is lost
  virtual absl::Status Average(absl::Span<const absl::Span<float>> values, int64_t rows,
                               const absl::Status& status) = 0;

  // Replaces each value by its sum over all learners, such as counts and statistics of their rows. `status` and errors are as
  // those of Average().
  virtual absl::Status Sum(absl::Span<double> values, const absl::Status& status) = 0;
};

// Likewise; without a reducer there is a single learner and the values stay as they are.
inline absl::Status AverageGradients(GradientReducer* reducer,
                                     absl::Span<const absl::Span<float>> values, int64_t rows,
                                     const absl::Status& status) {
  return reducer == nullptr ? status : reducer->Average(values, rows, status);
}
inline absl::Status SumOverLearners(GradientReducer* reducer, absl::Span<double> values,
                                    const absl::Status& status = absl::OkStatus()) {
  return reducer == nullptr ? status : reducer->Sum(values, status);
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_GRADIENT_REDUCER_H_
