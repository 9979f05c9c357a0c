// The selectors that come with the buffers.
//
// Threads: as ISelector.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTORS_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTORS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/selection/uniform_draw.h"

namespace ding {

// Draws every candidate with the same probability; without `replace` no candidate twice.
class UniformSelector : public ISelector {
 public:
  absl::Status Select(const Candidates& from, int64_t newest, bool replace, Rng* rng,
                      absl::Span<int64_t> ranks) override {
    if (replace) {
      draw_.WithReplacement(newest, rng, ranks);
    } else {
      draw_.WithoutReplacement(newest, rng, ranks);
    }
    const int64_t first = from.size() - newest;
    if (first == 0) return absl::OkStatus();
    for (int64_t& rank : ranks) rank += first;
    return absl::OkStatus();
  }

 private:
  UniformDraw draw_;
};

// Makes a buffer that keeps priorities draw in proportion to priority^alpha (PriorityTable::Draw). A
// candidate whose weight is more than one stratum can be drawn more than once.
class ProportionalSelector : public ISelector {
 public:
  absl::Status Select(const Candidates& /*from*/, int64_t /*newest*/, bool /*replace*/,
                      Rng* /*rng*/, absl::Span<int64_t> /*ranks*/) override {
    return absl::InternalError("a buffer draws in proportion to its priorities itself");
  }
  bool ByPriority() const override { return true; }
};

// Returns `given`, or if it is null a new selector of the type `Default`.
template <typename Default>
std::shared_ptr<ISelector> SelectorOr(const std::shared_ptr<ISelector>& given) {
  return given != nullptr ? given : std::make_shared<Default>();
}

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_SELECTORS_H_
