// Says whether a policy can learn from what its replay buffer draws: single rows, or sequences of rows.
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_WORKER_RUN_SEQUENCE_PROBLEMS_H_
#define DING_WORKER_WORKER_RUN_SEQUENCE_PROBLEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ding_worker/policy/policy.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns a sentence for each field of the config that does not fit:
//   - A policy that learns from sequences (LearnAttributes::sequences) needs a buffer that draws them
//     (IBuffer::draws_sequences()). If policy.collect.unroll_len is above 1, a buffer of type "sequence"
//     must draw sequences of as many rows: what is collected as one sample is drawn as one.
//   - Any other policy learns from every row of a batch, and so must get no rows of padding and none that
//     only warm up a recurrent state. A buffer of type "sequence" without these is accepted.
//   - A sequence of one episode without padding must not be longer than episodes can be: `max_episode_steps`
//     (EnvSpec), or 0 if that has no limit.
std::vector<std::string> FindSequenceProblems(const ExperimentConfig& config,
                                              const LearnAttributes& policy, bool draws_sequences,
                                              int64_t max_episode_steps);

// Returns a sentence if no episode of the env has the rows of a sample, policy.collect.unroll_len, and those that are
// left at its end are dropped (policy.collect.last_sample): an on-policy policy would learn from nothing.
std::vector<std::string> FindSampleProblems(const ExperimentConfig& config,
                                            int64_t max_episode_steps);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_SEQUENCE_PROBLEMS_H_
