// Random sequences of rows for tests of recurrent policies, as a `sequence` buffer draws them.
//
// Equal arguments give equal bytes.   Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TESTING_RANDOM_SEQUENCES_H_
#define DING_WORKER_POLICY_TESTING_RANDOM_SEQUENCES_H_

#include <cstdint>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"

namespace ding {

struct RandomSequencesOptions {
  int64_t sequences = 4;   // B
  int64_t length = 4;      // T
  int64_t state_size = 3;  // S
  int64_t burn_in = 0;
  bool padding = true;  // the last rows of some sequences are padding; column "mask"
  bool cross_episodes =
      true;  // episodes end within sequences, one in two by truncation; column "is_first"
  bool weights = true;  // column "weight", the same for all rows of a sequence
};

// Returns a batch [B * T] with Batch::sequence_length() T: transitions of one step (policy/random_batch.h)
// with "rnn_state" [S], "burn_in" and the columns of the options. next_obs of a row is obs of the row after
// it in the same episode, and each row before the end of an episode and of its sequence has a discount above
// 0. Each sequence has a row that is neither burn-in nor padding.
Batch MakeRandomSequences(const SpecPtr& observation, const SpecPtr& action, uint64_t seed,
                          const RandomSequencesOptions& options = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_RANDOM_SEQUENCES_H_
