// Why a run cannot start: policy, env and replay buffer do not fit together, or modules refuse
// their configs. All problems are reported at once, before anything is collected.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_SETUP_SETUP_PROBLEMS_H_
#define DING_WORKER_WORKER_SETUP_SETUP_PROBLEMS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/env/env.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Moves the value of `made` to `*out`; an error is appended to `*problems` instead, prefixed by
// `what`.
template <typename T>
void TakeOrReport(absl::StatusOr<T> made, absl::string_view what, T* out,
                  std::vector<std::string>* problems) {
  if (made.ok()) {
    *out = *std::move(made);
  } else {
    problems->push_back(absl::StrCat(what, ": ", made.status().message()));
  }
}

// kInvalidArgument with all problems, if there are any.
inline absl::Status StartupProblemsToStatus(const std::vector<std::string>& problems) {
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the run cannot start:\n  ", absl::StrJoin(problems, "\n  ")));
}

// Returns a sentence for each thing that does not fit: a replay buffer of type "hindsight" needs an
// env whose observations have both goals (data/goal_fields.h) and whose reward is one number; and
// it must reward as the compute_reward() of a Python env does. Any other buffer fits. Call it when
// the env manager of the config exists, which has asked the env then.
std::vector<std::string> FindGoalProblems(const ExperimentConfig& config, const EnvSpec& env);

// Returns a sentence for each field of the config with which the policy cannot learn from what its
// replay buffer draws, single rows or sequences of rows:
//   - A policy that learns from sequences (LearnAttributes::sequences) needs a buffer that draws
//     them (IBuffer::draws_sequences()). If policy.collect.unroll_len is above 1, a buffer of type
//     "sequence" must draw sequences of as many rows: what is collected as one sample is drawn as
//     one.
//   - Any other policy learns from every row of a batch, and so must get no rows of padding and
//     none that only warm up a recurrent state. A buffer of type "sequence" without these is
//     accepted.
//   - A sequence of one episode without padding must not be longer than episodes can be:
//     `max_episode_steps` (EnvSpec), or 0 if that has no limit.
std::vector<std::string> FindSequenceProblems(const ExperimentConfig& config,
                                              const LearnAttributes& policy, bool draws_sequences,
                                              int64_t max_episode_steps);

// Returns a sentence if no episode of the env has the rows of a sample, policy.collect.unroll_len,
// and those that are left at its end are dropped (policy.collect.last_sample): an on-policy policy
// would learn from nothing.
std::vector<std::string> FindSampleProblems(const ExperimentConfig& config,
                                            int64_t max_episode_steps);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SETUP_SETUP_PROBLEMS_H_
