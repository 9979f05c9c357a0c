// Updates a target network after each training iteration:
//
//   hard  every `freq` iterations  target = online                             (Mnih et al. 2015)
//   soft  every iteration          target = (1 - theta) target + theta online  (Lillicrap et al. 2016)
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TARGET_UPDATE_H_
#define DING_WORKER_POLICY_TARGET_UPDATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ding {

// Exactly one of the two must be above 0.
struct TargetUpdate {
  int64_t freq = 100;  // training iterations
  double theta = 0;    // in (0, 1]
};

// Returns kInvalidArgument unless exactly one is set and in its range.
absl::Status Validate(const TargetUpdate& update);

// `train_iter` is the number of complete iterations: 1 after the first. Both spans have the same length.
void UpdateTarget(const TargetUpdate& update, int64_t train_iter, absl::Span<const float> online,
                  absl::Span<float> target);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TARGET_UPDATE_H_
