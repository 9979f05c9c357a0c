// Links between consecutive episodes of a stream, for buffers whose sequences cross episodes: which
// rows begin an episode, and with which row a stream goes on after the last row of one. The links
// of RowStore end with the episode.
//
//     stream 0   r0 r1 r3 | end   r6 r7      Next(r3) = r6        begins: r0, r6
//     stream 1   r2 r4 | end   r5 | end      Next(r4) = r5        begins: r2, r5
//
// It is a ring with one mark for each of the last `capacity` ids. Later rows overwrite the marks of
// old ones, so nothing has to be removed.
//
// Memory:  4 bytes per id of the capacity, rounded up to a power of two.
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_STORAGE_EPISODE_LINKS_H_
#define DING_WORKER_REPLAY_BUFFER_STORAGE_EPISODE_LINKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

class EpisodeLinks {
 public:
  // The most memory per id of the capacity.
  static constexpr int64_t kBytesPerId = 8;

  // 1 <= capacity <= 2^29.
  explicit EpisodeLinks(int64_t capacity);

  // Adds rows [id, id + rows) of one episode, which are newer than all rows before and may be more
  // than the capacity. `begins`: row `id` begins the episode.
  void Add(int64_t id, int64_t rows, bool begins);
  // Links row `last` to row `first`, which begins the next episode of the stream. Both are among
  // the last `capacity` ids.
  void Link(int64_t last, int64_t first);

  // Whether row `id` begins an episode; it is among the last `capacity` ids.
  bool Begins(int64_t id) const { return MarkOf(id).begins != 0; }
  // Returns the row that begins the next episode after row `id`. -1: no episode follows it (yet).
  int64_t Next(int64_t id) const {
    const int64_t distance = MarkOf(id).distance;
    return distance == 0 ? -1 : id + distance;
  }

  // Returns a copy of the marks of rows [begin_id, end_id).
  StateSnapshot Snapshot(int64_t begin_id, int64_t end_id) const;
  // Loads into a new object. kInvalidArgument, naming the row, if a mark contradicts the rows of
  // `store`.
  absl::Status Load(StateReader* reader, const RowStore& store);

 private:
  struct Mark {
    uint32_t begins : 1;
    uint32_t distance : 31;  // to the first row of the stream's next episode; 0: none
  };

  Mark& MarkOf(int64_t id) { return marks_[id & mask_]; }
  const Mark& MarkOf(int64_t id) const { return marks_[id & mask_]; }

  int64_t mask_;
  std::vector<Mark> marks_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_STORAGE_EPISODE_LINKS_H_
