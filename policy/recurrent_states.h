// The recurrent states of the envs for which a policy acts, between two steps: one row of floats
// per env, which is 0 until the env's first step and after Reset().
//
// Ownership: owns the states; the span of Gather() is valid until the next call.
// Threads:   thread-compatible.
//
// Example:
//   const absl::Span<float> states = states_.Gather(env_ids);
//   DING_RETURN_IF_ERROR(network->InferSequences(rows, out, states));
//   states_.Scatter(env_ids);
#ifndef DING_WORKER_POLICY_RECURRENT_STATES_H_
#define DING_WORKER_POLICY_RECURRENT_STATES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/state.h"

namespace ding {

class RecurrentStates {
 public:
  // Each state has `size` floats, at least 1.
  explicit RecurrentStates(int64_t size) : size_(size) {}

  int64_t size() const { return size_; }

  // The highest id is kMaxIds - 1. Memory: the states of the ids that were used, and 4 bytes for
  // each id below the highest one.
  static constexpr int kMaxIds = 1 << 20;
  // kInvalidArgument unless there is an id from 0 to kMaxIds - 1 for each of `rows` rows. Call it
  // with a caller's ids before Gather().
  static absl::Status CheckIds(absl::Span<const int> env_ids, int64_t rows);

  // Returns the states of these envs as rows [env_ids.size(), size()] to be changed in place;
  // nothing is kept until Scatter(). An id that CheckIds() refuses has a state of 0.
  absl::Span<float> Gather(absl::Span<const int> env_ids);
  // Keeps the rows of the last Gather() as the states of the same envs. Ids that CheckIds() refuses
  // end the program.
  void Scatter(absl::Span<const int> env_ids);
  // Sets the states of these envs to 0, or the states of all envs if `env_ids` is empty.
  void Reset(absl::Span<const int> env_ids);

  // Tensors "size" and "states" [envs * size()]. LoadState() returns kInvalidArgument, and changes
  // nothing, if the states have another size or hold NaN or infinity.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  const int64_t size_;
  // Returns the state of an id; null if it is 0 and has no memory.
  float* Find(int env_id);

  std::vector<int> rows_;        // of env i: where its state is in states_; kNoRow: nowhere
  std::vector<float> states_;    // rows of size_, in the order in which ids were first used
  std::vector<float> gathered_;  // scratch of Gather()
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_RECURRENT_STATES_H_
