// Standard normal numbers for the rows of a training batch, such as the noise of actions that a learner
// draws.
//
// The numbers of a row are a function of the seed, the training iteration and the content of the row: of its
// observation, action and reward. They do not depend on the place of the row. So a group of learners, each with a part of
// a batch, draws what a single learner draws, and a resumed run needs no state. A row that is in a batch twice gets
// the same numbers twice.
//
// Shapes: noise [B, n], row-major.
// Ownership: owns working memory, which grows with the largest batch.   Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_CONTINUOUS_ROW_NOISE_H_
#define DING_WORKER_POLICY_CONTINUOUS_ROW_NOISE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/policy/sampled_transition_reader.h"

namespace ding {

class RowNoise {
 public:
  // Different seeds give independent numbers.
  explicit RowNoise(uint64_t seed) : seed_(seed) {}
  uint64_t seed() const { return seed_; }
  uint64_t* mutable_seed() { return &seed_; }  // for saved states

  // Fills two spans of the same length with independent numbers. The length is a multiple of the number of
  // rows of `batch`.
  void Draw(const TransitionView& batch, int64_t train_iter, absl::Span<float> first,
            absl::Span<float> second);
  // Writes keys for further random numbers of the rows of the last Draw(), one for each row. Different uses have independent
  // keys in an iteration.
  void DrawKeys(int64_t train_iter, uint32_t use, absl::Span<uint64_t> keys) const;

 private:
  uint64_t seed_;
  std::vector<uint64_t> keys_;  // one for each row
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_ROW_NOISE_H_
