// How a target network follows the network that learns, after each training iteration:
//
//   hard  every `freq` iterations  target = online                             (Mnih et al. 2015)
//   soft  every iteration          target = (1 - theta) target + theta online  (Lillicrap et al.
//   2016)
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TARGET_UPDATE_H_
#define DING_WORKER_POLICY_TARGET_UPDATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ding {

// Exactly one of the two is above 0.
struct TargetUpdate {
  int64_t freq = 100;  // training iterations
  double theta = 0;    // in (0, 1]
};

// kInvalidArgument if not exactly one is set, or theta is out of range.
absl::Status Validate(const TargetUpdate& update);

// `train_iter` iterations are done: 1 after the first. Both spans have the same length.
void UpdateTarget(const TargetUpdate& update, int64_t train_iter, absl::Span<const float> online,
                  absl::Span<float> target);

}  // namespace ding

#endif  // DING_WORKER_POLICY_TARGET_UPDATE_H_
