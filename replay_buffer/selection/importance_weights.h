// What all draws by priority have in common (Schaul et al., "Prioritized experience replay", ICLR
// 2016, proportional variant, section 3.3), whether the candidates are rows or sequences:
//
//   P(i) = p_i^alpha / sum_k p_k^alpha       the probability of candidate i
//   weight_i = (P(i) / min_k P(k))^-beta     in (0, 1]; the minimum is over all candidates
//
// PriorityTable draws the candidates.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_IMPORTANCE_WEIGHTS_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_IMPORTANCE_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"

namespace ding {

// The options of draws by priority; importance_weights.h has the formulas.
struct PriorityOptions {
  double alpha = 0.6;            // 0: uniform draws
  double beta = 0.4;             // 0: all importance weights 1
  int64_t anneal_step = 100000;  // draws until beta is 1; 0: it stays the same
};

// Adds a sentence for each option that is out of range.
void AppendPriorityProblems(const PriorityOptions& options, std::vector<std::string>* problems);

// The exponent of the importance weights, which grows from its first value to 1 in `anneal_step`
// draws.
class AnnealedBeta {
 public:
  explicit AnnealedBeta(const PriorityOptions& options) : options_(options), value_(options.beta) {}

  // The exponent of the next draw.
  double value() const { return value_; }
  void CountDraw();

  StateSnapshot Snapshot() const;
  // Reads and checks a saved value, for set(). kInvalidArgument if it was saved with another first
  // value or number of draws, since the saved value depends on them.
  absl::StatusOr<double> Read(StateReader* reader) const;
  void set(double value) { value_ = value; }

 private:
  const PriorityOptions options_;
  double value_;
};

// Turns p_i^alpha of each `stride`-th element, from the first on, into the importance weight; all
// of these are 1 if DrawFacts::min_weight, the smallest p_k^alpha, is 0.
void ToImportanceWeights(const DrawFacts& facts, size_t stride, absl::Span<float> weights);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_IMPORTANCE_WEIGHTS_H_
