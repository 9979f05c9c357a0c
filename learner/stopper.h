// Stoppers end a run before its budget is used up. The program calls each stopper after every
// evaluation and, in between, after every round (in a parallel run: about once per second). This is
// a normal end of the run.
//
// Ownership: owned by the program (StopperList).
// Threads:   thread-compatible; called by one thread at a time.
//
// Example: a stopper that ends a run after an evaluation in which every episode was lost.
//   class AllLostStopper : public IStopper {
//    public:
//     std::string WhyStop(const RunMoment& now) override {
//       if (now.evaluation == nullptr || now.evaluation->mean_return > -1) return "";
//       return "all episodes of an evaluation were lost";
//     }
//   };
#ifndef DING_WORKER_LEARNER_STOPPER_H_
#define DING_WORKER_LEARNER_STOPPER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/evaluation.h"

namespace ding {

// The progress of a run when a stopper is called.
struct RunMoment {
  int64_t env_step = 0;    // 0 in a supervised run
  int64_t train_iter = 0;  // in a run that trains several policies: their sum
  // Duration of the run, without the time between an interruption and the resumption.
  absl::Duration elapsed = absl::ZeroDuration();
  // The evaluation that has just ended; null: none has ended since the last call.
  const Evaluation* evaluation = nullptr;
};

class IStopper {
 public:
  virtual ~IStopper() = default;

  // Returns why the run should end now, as words that follow "the run ends: "; empty: it goes on.
  virtual std::string WhyStop(const RunMoment& now) = 0;

  // Returns the name of the env's info value that the stopper reads from evaluations; empty: none.
  // If no evaluation of the run has had this value yet, an evaluation without it ends the run with
  // an error.
  virtual std::string info() const { return ""; }

  // Save and load the stopper's state, so that a resumed run ends as it would have ended without
  // the interruption. The default is for stoppers without state.
  virtual absl::Status SaveState(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_STOPPER_H_
