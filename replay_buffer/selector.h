// Chooses what a draw consists of: the part of a buffer that a user is most likely to replace.
//
// A candidate is a row, or in buffers of sequences and of whole episodes one of these. A selector names
// it by its rank: 0 is the oldest. So one selector works with every buffer.
//
// Ownership: a buffer owns its selector and lends it the candidates for the call.
// Threads:   called under the buffer's lock, by one thread at a time. Must not call the buffer.
// Errors:    Select() may fail or throw, which fails the draw; the other functions must not throw.
//
// Example: the newest first, over and over.
//   class NewestFirst : public ISelector {
//    public:
//     absl::Status Select(const Candidates& from, int64_t newest, bool replace, Rng* rng,
//                         absl::Span<int64_t> ranks) override {
//       for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = from.size() - 1 - i % newest;
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

// What can be drawn at the moment.
class Candidates {
 public:
  virtual ~Candidates() = default;

  virtual int64_t size() const = 0;
  // The replay_unique_id of the candidate of that rank, in a sequence that of its first row. Grows
  // with the rank. May take the logarithm of the capacity.
  virtual int64_t Id(int64_t rank) const = 0;
};

class ISelector {
 public:
  virtual ~ISelector() = default;

  // Fills `ranks` with candidates, chosen from the `newest` ones: 1 <= newest <= from.size(). Without
  // `replace` they should differ; there are enough then. The numbers of `rng` are saved with the
  // buffer, and go back if the draw fails after all. An error, or a rank that no candidate has, fails
  // the draw.
  virtual absl::Status Select(const Candidates& from, int64_t newest, bool replace, Rng* rng,
                              absl::Span<int64_t> ranks) = 0;

  // Whether the buffer is to draw in proportion to its priorities instead of calling Select(), and to
  // correct for it by importance weights. kFailedPrecondition in a buffer without priorities.
  virtual bool ByPriority() const { return false; }

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
