// Several learners that take their optimizer steps together: each computes gradients by its own rows,
// and all step by the mean. Whoever creates a policy passes one in its context; a policy does not
// know who else learns.
//
//     rows of this learner ──► loss, gradients ──► Average() ──► clip, Adam ──► parameters
//                                                     ▲ │
//                                    the other learners' gradients
//
// Learners that begin with equal parameters and optimizers stay equal: what Average() gives is the
// same in all of them, to the bit.
//
// Threads: thread-compatible; every learner makes the same calls in the same order.
#ifndef DING_WORKER_POLICY_GRADIENT_REDUCER_H_
#define DING_WORKER_POLICY_GRADIENT_REDUCER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ding {

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // Replaces `values`, which lie in several pieces, by their mean over all learners, each weighted by
  // its `rows`: of the mean gradients of parts of a batch, that is the gradient of the batch. Every
  // learner has pieces of the same sizes. `status` is how this learner's step went so far: also one
  // whose step failed calls this, as the others wait for it, and then the step fails for all.
  //   `status`, if it is an error; kAborted  another learner's step failed: values are unspecified
  //   kUnavailable, kDeadlineExceeded ...    a learner is gone
  virtual absl::Status Average(absl::Span<const absl::Span<float>> values, int64_t rows,
                               const absl::Status& status) = 0;
};

// The same; without a reducer there is one learner alone, and nothing to do.
inline absl::Status AverageGradients(GradientReducer* reducer,
                                     absl::Span<const absl::Span<float>> values, int64_t rows,
                                     const absl::Status& status) {
  return reducer == nullptr ? status : reducer->Average(values, rows, status);
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_GRADIENT_REDUCER_H_
