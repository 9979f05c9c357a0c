// What a commander knows of a policy that one of its learner tasks trains: the progress of its training, and the results
// of its collecting tasks and evaluations.
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

// Returns the mean of the returns. There must be at least one.
double MeanReturn(absl::Span<const double> returns);

struct TrainedPolicy {
  LearnerTask task;                     // the learner task that was given last
  std::optional<PolicyVersion> newest;  // the version that was published last
  int64_t learner_step = 0;
  // These are sums over its finished collecting tasks.
  int64_t env_steps = 0;
  int64_t sample_count = 0;
  int64_t episode_count = 0;
  int running = 0;  // the number of collecting tasks and evaluations that run
  // The env steps by which turns are given: env_steps, and for a policy that began later those that it need not catch up on.
  int64_t turn_steps = 0;
  bool evaluating = false;
  std::optional<int64_t> eval_began_nanos;  // when the last evaluation began
  bool collected_since_evaluation = true;   // whether a collecting task was given since
  int64_t evaluations = 0;                  // the number of evaluations with a result
  std::vector<double> eval_returns;         // the returns of the last one
  // The version whose evaluation has reached the stop value, until its confirmation has a result; else not set.
  std::optional<PolicyVersion> to_confirm;
  bool converged = false;
  // The results of the collecting tasks since the last measurement. They are not saved.
  CollectorFinished collected;
  std::optional<int64_t> measured_nanos;
  int64_t measured_train_iter = 0;

  // The mean return of the last evaluation; nullopt if there was none.
  std::optional<double> eval_value() const;
};

// Convert to and from the message that is saved. It has times relative to `now_nanos`.
TrainedPolicyRecord ToRecord(const TrainedPolicy& policy, int64_t now_nanos);
TrainedPolicy FromRecord(const TrainedPolicyRecord& record, int64_t now_nanos);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_TRAINED_POLICY_H_
