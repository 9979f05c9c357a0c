// Which rows of a RowStore begin a sequence that can be drawn: the book that buffers of sequences
// and of whole episodes keep.
//
// A run is what the links of the store join: consecutive rows of one stream within one episode. It
// ends with the episode, or where the stream lost steps. Counted from its first row, also when that
// was evicted, rows 0, period, 2 period, ... begin a sequence:
//
//     run       r0 r1 r2 r3 r4 r5 r6 | end          rows = 4, period = 2
//               [---------]
//                     [---------]
//                           [------..]              with padding, once the run has ended
//                                 [..]
//
// A sequence can be drawn when its last row has come, and until its first row is evicted. Whole
// episodes are one sequence per run, from row 0 to the end of the episode; a run that begins amid an
// episode has none. A stream's first segment counts as the beginning of an episode.
//
// Across episodes a run goes on with the stream's next episode, and so do rows 0, period, ...; it
// ends only where steps are lost. The rows after these begin no episode: which one is not known.
//
// Memory:  4 bytes per row of the capacity (RankedIds), across episodes 4 more (EpisodeLinks), 8
//          bytes per sequence that is under way, and about 150 bytes per stream. Streams whose rows
//          are all gone are forgotten when there are more than twice the capacity.
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_SEQUENCE_INDEX_H_
#define DING_WORKER_REPLAY_BUFFER_SEQUENCE_INDEX_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/episode_links.h"
#include "ding_worker/replay_buffer/ranked_ids.h"
#include "ding_worker/replay_buffer/row_store.h"

namespace ding {

class SequenceIndex {
 public:
  struct Options {
    std::optional<int64_t> rows;  // of a sequence, at least 1; not set: whole episodes
    int64_t period = 1;           // at least 1; without meaning for whole episodes
    bool padding = false;         // runs may end within a sequence
    bool cross_episodes = false;  // runs go on after an episode; not for whole episodes
  };

  // Memory per row of the capacity, at most.
  static int64_t RowBytes(const Options& options) {
    return RankedIds::kBytesPerId + (options.cross_episodes ? EpisodeLinks::kBytesPerId : 0);
  }

  SequenceIndex(const Options& options, int64_t capacity_rows);

  // The segments of a push, whose row 0 got the id `first_id`; the oldest valid row now is
  // `begin_id`.
  void Append(absl::Span<const Segment> segments, int64_t first_id, int64_t begin_id);
  void EvictBefore(int64_t begin_id);

  // Sequences that can be drawn, ordered by the ids of their first rows.
  int64_t size() const { return starts_.size(); }
  int64_t Select(int64_t rank) const { return starts_.Select(rank); }

  // Of a valid row that ended an episode: the row with which its run goes on; -1: none (yet).
  int64_t NextEpisode(int64_t id) const { return episodes_.has_value() ? episodes_->Next(id) : -1; }
  // Whether a valid row begins an episode. Across episodes only.
  bool BeginsEpisode(int64_t id) const { return episodes_->Begins(id); }

  // A copy of what is known of the rows of `store`.
  StateSnapshot Snapshot(const RowStore& store) const;
  // Into a new index. kInvalidArgument for what no index of the rows of `store` can have written.
  absl::Status Load(StateReader* reader, const RowStore& store);

 private:
  // The newest run of a stream.
  struct Run {
    int64_t next_step = 0;
    int64_t last_id = -1;
    int64_t rows = 0;             // so far; 0: the next row begins a run
    std::deque<int64_t> pending;  // first rows of sequences that lack rows
    bool at_beginning = true;     // across episodes: the next row begins one
  };

  Run& RunOf(const Segment& segment, int64_t begin_id);
  void LinkEpisode(const Segment& segment, int64_t id, int64_t begin_id, Run* run);
  void AddRow(Run* run, int64_t id, int64_t begin_id);
  void EndRun(Run* run, bool with_the_episode, int64_t begin_id);
  void ForgetStreams(int64_t begin_id);
  bool IsNewest(const Run& run, const RowStore& store) const;

  const Options options_;
  const int64_t capacity_rows_;
  RankedIds starts_;
  std::optional<EpisodeLinks> episodes_;    // across episodes
  absl::flat_hash_map<int64_t, Run> runs_;  // by stream
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SEQUENCE_INDEX_H_
