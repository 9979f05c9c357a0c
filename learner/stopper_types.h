// The stoppers that every program has; the messages in learner/stopper.proto describe them.
//
// Threads: as IStopper.
#ifndef DING_WORKER_LEARNER_STOPPER_TYPES_H_
#define DING_WORKER_LEARNER_STOPPER_TYPES_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/stopper.h"

namespace ding {

// Stops after `evaluations` in a row of which none exceeded the best mean return by more than `min_delta`. A
// NaN is never better.
class NoImprovementStopper : public IStopper {
 public:
  NoImprovementStopper(int64_t evaluations, double min_delta)
      : evaluations_(evaluations), min_delta_(min_delta) {}

  std::string WhyStop(const RunMoment& now) override;
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  const int64_t evaluations_;
  const double min_delta_;
  double best_ = -std::numeric_limits<double>::infinity();
  int64_t since_best_ = 0;  // evaluations that were not better
};

// Stops after an evaluation with a mean return of at least `value`.
class ValueReachedStopper : public IStopper {
 public:
  explicit ValueReachedStopper(double value) : value_(value) {}

  std::string WhyStop(const RunMoment& now) override;

 private:
  const double value_;
};

// Stops when the run has taken `limit`.
class WallClockStopper : public IStopper {
 public:
  explicit WallClockStopper(absl::Duration limit) : limit_(limit) {}

  std::string WhyStop(const RunMoment& now) override;

 private:
  const absl::Duration limit_;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_STOPPER_TYPES_H_
