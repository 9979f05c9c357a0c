// Chooses what a draw consists of: the part of a buffer that a user is most likely to replace.
//
// A buffer names its candidates by row ids. A candidate is a row, or in buffers of sequences and of
// whole episodes the first row of one; so one selector works with every buffer.
//
// Ownership: a buffer owns its selector and lends it the candidates for the call.
// Threads:   called under the buffer's lock, by one thread at a time.
//
// Example: the newest first, over and over.
//   class NewestFirst : public ISelector {
//    public:
//     absl::Status Select(Candidates* from, int64_t newest, bool replace, Rng* rng,
//                         absl::Span<int64_t> ids) override {
//       for (size_t i = 0; i < ids.size(); ++i) ids[i] = from->size() - 1 - i % newest;
//       from->RanksToIds(ids);
//       return absl::OkStatus();
//     }
//   };
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTOR_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/priority_info.h"
#include "ding_worker/data/state.h"

namespace ding {

// What can be drawn at the moment, ranked by age: rank 0 is the oldest.
class Candidates {
 public:
  virtual ~Candidates() = default;

  virtual int64_t size() const = 0;
  // Replaces ranks, each in [0, size()), by the row ids of the candidates.
  virtual void RanksToIds(absl::Span<int64_t> ranks) const = 0;
  // Draws in proportion to priority^alpha from the `newest` candidates: one from each of ids.size()
  // equal strata of the sum. kFailedPrecondition if the buffer keeps no priorities.
  virtual absl::Status DrawInProportion(int64_t newest, Rng* rng, absl::Span<int64_t> ids) = 0;
};

class ISelector {
 public:
  virtual ~ISelector() = default;

  // Fills `ids` with candidates, chosen from the `newest` ones; 1 <= newest <= from->size(). Without
  // `replace`, ids.size() <= newest. The numbers of `rng` are saved with the buffer, and go back if
  // the draw fails after all. An error, or an id that the buffer does not hold, fails the draw.
  virtual absl::Status Select(Candidates* from, int64_t newest, bool replace, Rng* rng,
                              absl::Span<int64_t> ids) = 0;

  // Whether Select() is Candidates::DrawInProportion(). A buffer with importance weights then
  // corrects for it; otherwise these weights are 1.
  virtual bool InProportion() const { return false; }

  // The priorities that IBuffer::Update() was given.
  virtual void Update(const PriorityInfo& /*info*/) {}
  // The buffer forgot all rows.
  virtual void Clear() {}

  // What has to be saved with the buffer, if anything: null for nothing.
  virtual StateSnapshot Snapshot() const { return nullptr; }
  // Reads what Snapshot() wrote; called if that was not null. An error leaves the selector as it was.
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTOR_H_
