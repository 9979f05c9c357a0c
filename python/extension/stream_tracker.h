// Cuts pushed rows into segments of streams: a row continues the one before it in its stream if its
// observation is the observation after that one.
//
//     streams   0  1  0  1 | 0 ...       one env per stream; without streams all rows are of one
//     segments  a0 b0 a1 b1  a2          a2 continues a1, also in a later push
//
// Ownership: keeps a copy of the last observation of each stream.
// Threads:   one call at a time.
#ifndef DING_WORKER_PYTHON_EXTENSION_STREAM_TRACKER_H_
#define DING_WORKER_PYTHON_EXTENSION_STREAM_TRACKER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

class StreamTracker {
 public:
  // More streams than any program has envs; each costs the memory of an observation.
  static constexpr size_t kMaxStreams = size_t{1} << 16;

  struct Rows {
    absl::Span<const std::byte* const> obs;       // [N, ...] for each observation field
    absl::Span<const std::byte* const> next_obs;  // likewise
    const Spec* obs_spec;
    absl::Span<const int64_t> streams;  // [N]; empty: all rows are of one stream
    absl::Span<const SegmentEnd> ends;  // [N]
  };

  // Appends the segments of the rows. `last_rows` gets the last row of each segment.
  // kInvalidArgument: there are too many streams.
  absl::Status Cut(const Rows& rows, std::vector<Segment>* segments,
                   std::vector<int64_t>* last_rows);
  // Forgets the latest Cut(), whose rows were not stored.
  void Undo();
  // Forgets all streams.
  void Clear();

 private:
  struct Tail {
    int64_t next_step = 0;
    bool open = false;     // the episode goes on
    std::string next_obs;  // if it does
  };

  absl::flat_hash_map<int64_t, Tail> tails_;
  std::vector<std::pair<int64_t, Tail>> before_;  // what the latest Cut() changed
};

}  // namespace ding

#endif  // DING_WORKER_PYTHON_EXTENSION_STREAM_TRACKER_H_
