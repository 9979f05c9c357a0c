// Random data, and small spaces, for tests and benchmarks of policies.
//
// Equal arguments give equal bytes. Fields may be float32 boxes, which get values in [-1, 1),
// pictures of bytes, discrete fields and action masks; the actions are legal.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_TESTING_RANDOM_BATCH_H_
#define DING_WORKER_POLICY_TESTING_RANDOM_BATCH_H_

#include <cstdint>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"

namespace ding {

// "obs" float32[width].
SpecPtr VectorObservation(int64_t width = 4);

// "obs/action_mask" bool[categories].
FieldSpec ActionMaskSpec(int64_t categories);

// ActionMaskSpec(categories) and "obs/x" float32[width].
SpecPtr MaskedObservation(int64_t categories, int64_t width = 4);

// "action", one of `categories`.
SpecPtr DiscreteAction(int64_t categories = 3);

// "action" float32[2], from (-2, -1) to (2, 3): bounds that are not symmetric show a wrong scale or
// shift.
SpecPtr BoxAction();

Batch MakeObservationBatch(const SpecPtr& observation, int64_t rows, uint64_t seed);

// Returns transitions with the columns of data/sample_columns.h that all buffers have. One in five
// is terminated.
Batch MakeTransitionBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                          uint64_t seed);

// Returns training data for on-policy policies: observations, "action" (and "raw_action" if it is
// continuous), "log_prob", "value", "adv" and "return".
Batch MakeOnPolicyBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                        uint64_t seed);

// Returns training data for IMPALA: `rows` rows as sequences of `length`. They are the rows of
// MakeTransitionBatch(), with "raw_action" if the action is continuous, "log_prob", "mask",
// "burn_in" and "is_first". In every second sequence some rows at the end are padding; episodes
// begin inside of sequences.
Batch MakeImpalaTestBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                          int64_t length, uint64_t seed);

// Random sequences of rows for recurrent policies, as a `sequence` buffer draws them.
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

// Returns a batch [B * T] with Batch::sequence_length() T: transitions of one step with "rnn_state"
// [S], "burn_in" and the columns of the options. next_obs of a row is obs of the row after it in
// the same episode, and each row before the end of an episode and of its sequence has a discount
// above 0. Each sequence has a row that is neither burn-in nor padding.
Batch MakeRandomSequences(const SpecPtr& observation, const SpecPtr& action, uint64_t seed,
                          const RandomSequencesOptions& options = {});

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_RANDOM_BATCH_H_
