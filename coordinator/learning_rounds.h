// The rounds in which the learner of an on-policy policy uses the rows of a parallel run: each round is
// learned from once, and by the next version of the policy the next one is collected.
//
// Threads: thread-safe.
#ifndef DING_WORKER_COORDINATOR_LEARNING_ROUNDS_H_
#define DING_WORKER_COORDINATOR_LEARNING_ROUNDS_H_

#include <cstdint>

namespace ding {

struct LearningRounds {
  int64_t rows = 0;            // items of a round, at least 1
  int64_t hand_over_rows = 0;  // items that a collector usually hands over together, at least 1
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_LEARNING_ROUNDS_H_
