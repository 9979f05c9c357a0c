// The rounds of an on-policy policy in a parallel run: the learner learns from each round once, and
// then publishes the next version of the policy.
//
// Threads: thread-safe.
#ifndef DING_WORKER_COORDINATOR_STATE_LEARNING_ROUNDS_H_
#define DING_WORKER_COORDINATOR_STATE_LEARNING_ROUNDS_H_

#include <cstdint>

namespace ding {

struct LearningRounds {
  int64_t rows = 0;            // items of a round, at least 1
  int64_t hand_over_rows = 0;  // items that a collector usually hands over together, at least 1
  // How many rounds are collected while the learner learns. Rows are collected by a policy that is
  // this many versions older than the learner's. With 0, collectors wait until the learner demands
  // a round.
  int64_t ahead = 1;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_LEARNING_ROUNDS_H_
