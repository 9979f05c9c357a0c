// What a commander knows of a policy that one of its learner tasks trains: how far it is, and what its
// collecting tasks and evaluations have brought.
//
// Threads: a value; thread-compatible.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_TRAINED_POLICY_H_
#define DING_WORKER_COORDINATOR_COMMANDER_TRAINED_POLICY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/coordinator/commander/trained_policy.pb.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// The mean of the returns, of which there is one at least.
double MeanReturn(absl::Span<const double> returns);

struct TrainedPolicy {
  LearnerTask task;                     // the one that was given last
  std::optional<PolicyVersion> newest;  // the version that was published last
  int64_t learner_step = 0;
  // These count its finished collecting tasks.
  int64_t env_steps = 0;
  int64_t sample_count = 0;
  int64_t episode_count = 0;
  int running = 0;  // collecting tasks and evaluations
  // env_steps, and in addition those of the others that it does not have to make up for, since it began
  // later.
  int64_t turn_steps = 0;
  bool evaluating = false;
  std::optional<int64_t> eval_began_nanos;  // the last one
  bool collected_since_evaluation = true;   // a collecting task was given
  int64_t evaluations = 0;                  // with a result
  std::vector<double> eval_returns;         // of the last one
  // The version whose evaluation has reached the stop value, until it is confirmed or not; none: none has.
  std::optional<PolicyVersion> to_confirm;
  bool converged = false;
  // What collecting tasks since the last measurement gave; not saved.
  CollectorFinished collected;
  std::optional<int64_t> measured_nanos;
  int64_t measured_train_iter = 0;

  // Mean return of the last evaluation; none if there was none.
  std::optional<double> eval_value() const;
};

// Converts to and from what is saved. Moments are saved as how long they were ago.
TrainedPolicyRecord ToRecord(const TrainedPolicy& policy, int64_t now_nanos);
TrainedPolicy FromRecord(const TrainedPolicyRecord& record, int64_t now_nanos);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_TRAINED_POLICY_H_
