// Chunks that left a buffer, kept until nobody who was given items of them reads them any more.
//
//     BeginDraw(1)   BeginDraw(2)   Add(chunk 7)   BeginDraw(3)   Read(2)
//     ─────┴──────────────┴──────────────┴──────────────┴────────────┴───► TakeDeletable: 7
//
// A chunk may be in the answers to all demands whose draw began before it left, so it waits for
// these, and for no later one.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_STATE_REMOVED_CHUNKS_H_
#define DING_WORKER_COORDINATOR_STATE_REMOVED_CHUNKS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/types/span.h"

namespace ding {

class RemovedChunks {
 public:
  // Notes that the reader's demand number `sequence` is about to be drawn. The numbers grow.
  void BeginDraw(uint64_t sequence) { unread_[sequence] = ++draws_; }
  // Notes that the demand was not answered.
  void CancelDraw(uint64_t sequence) { unread_.erase(sequence); }
  // Notes that the reader has read the answers to all demands up to this one.
  void Read(uint64_t sequence) { unread_.erase(unread_.begin(), unread_.upper_bound(sequence)); }
  // Notes that the reader is gone. The next one numbers its demands anew.
  void ForgetReader() { unread_.clear(); }

  // Adds chunks that have just left the buffer.
  void Add(absl::Span<const int64_t> chunks) {
    for (const int64_t chunk : chunks) waiting_.push_back({chunk, draws_});
  }

  // Returns the chunks that nobody reads any more, in the order in which they left. Each is returned once.
  std::vector<int64_t> TakeDeletable() {
    std::vector<int64_t> chunks;
    while (!waiting_.empty() &&
           (unread_.empty() || unread_.begin()->second > waiting_.front().draws)) {
      chunks.push_back(waiting_.front().chunk);
      waiting_.pop_front();
    }
    return chunks;
  }

  // The number of demands that were drawn and whose answers were not read yet.
  size_t unread() const { return unread_.size(); }

 private:
  struct Removed {
    int64_t chunk;
    uint64_t draws;  // the number of draws that had begun when it left
  };

  uint64_t draws_ = 0;                   // the number of draws that have begun
  std::map<uint64_t, uint64_t> unread_;  // number of the draw, by sequence; both grow
  std::deque<Removed> waiting_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_REMOVED_CHUNKS_H_
