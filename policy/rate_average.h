// The learning rates of several optimizers, as numbers that a group of learners averages beside its gradients. Where
// schedules change the rates, those of a group may differ for a moment, but all of its learners must take the same step.
//
// Ownership: owns the numbers.   Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_RATE_AVERAGE_H_
#define DING_WORKER_POLICY_RATE_AVERAGE_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/policy/adam.h"

namespace ding {

class RateAverage {
 public:
  // Returns the rates of `optimizers`, null ones left out; valid until the next call.
  absl::Span<float> Read(absl::Span<Adam* const> optimizers);
  // Sets the rates of the same optimizers to those numbers. kInvalidArgument if one is not a rate.
  absl::Status Apply(absl::Span<Adam* const> optimizers) const;

 private:
  std::vector<float> rates_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_RATE_AVERAGE_H_
