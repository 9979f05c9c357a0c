// Draws indices uniformly at random, with or without replacement.
//
// Draws without replacement use Floyd's method (Bentley and Floyd, "A sample of brilliance", CACM
// 1987): one random number and one lookup in a small table per index, whatever n is. Every set of
// indices is equally likely, but their order is not random.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_UNIFORM_DRAW_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_UNIFORM_DRAW_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"

namespace ding {

class UniformDraw {
 public:
  // Fills `out` with indices in [0, n), 1 <= n < 2^32; they may repeat.
  static void WithReplacement(int64_t n, Rng* rng, absl::Span<int64_t> out);
  // Does the same, but the indices all differ; out.size() <= n.
  void WithoutReplacement(int64_t n, Rng* rng, absl::Span<int64_t> out);

 private:
  // Returns false if `index` was in the table already.
  bool Insert(int64_t index);

  std::vector<uint32_t> table_;  // open addressing: index + 1, or 0 for a free place
  int table_shift_ = 0;          // 64 - log2 of its size
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_UNIFORM_DRAW_H_
