// An index of the rows of a RowStore that begin a sequence that can be drawn. Buffers of sequences
// and of whole episodes keep it.
//
// A run is a series of rows that the links of the store join: consecutive rows of one stream within
// one episode. It ends with the episode, or where the stream lost steps. Every period-th row of a
// run, from row 0 on, begins a sequence. Rows are counted from the first row of the run, even if
// that row was evicted:
//
//     run       r0 r1 r2 r3 r4 r5 r6 | end          rows = 4, period = 2
//               [---------]
//                     [---------]
//                           [------..]              with padding, once the run has ended
//                                 [..]
//
// A sequence can be drawn from when its last row has arrived until its first row is evicted. An
// index of whole episodes has one sequence per run, from row 0 to the end of the episode, and none
// for a run that begins in the middle of an episode. A stream's first segment counts as the
// beginning of an episode.
//
// An index across episodes continues a run, and the count of its rows, with the next episode of the
// stream; the run ends only where steps are lost. The row after lost steps does not count as the
// beginning of an episode, since this is not known.
//
// Memory:  4 bytes per row of the capacity (RankedIds) and 4 more across episodes (EpisodeLinks); 8
//          bytes per sequence that lacks rows, and about 150 bytes per stream. When the streams are
//          more than twice the capacity, those without valid rows are forgotten.
// Threads: thread-compatible.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_SEQUENCE_INDEX_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_SEQUENCE_INDEX_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/replay_buffer/selection/ranked_ids.h"
#include "ding_worker/replay_buffer/storage/episode_links.h"
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

class SequenceIndex {
 public:
  struct Options {
    std::optional<int64_t> rows;  // rows per sequence, at least 1; not set: whole episodes
    int64_t period = 1;           // at least 1; ignored for whole episodes
    bool padding = false;         // runs may end within a sequence
    bool cross_episodes = false;  // runs go on after an episode; not for whole episodes
    bool lists_added = false;     // for added()
  };

  // The most memory per row of the capacity.
  static int64_t RowBytes(const Options& options) {
    return RankedIds::kBytesPerId + (options.cross_episodes ? EpisodeLinks::kBytesPerId : 0);
  }

  SequenceIndex(const Options& options, int64_t capacity_rows);

  // Adds the segments of a push whose row 0 got the id `first_id`. `begin_id` is now the oldest
  // valid row.
  void Append(absl::Span<const Segment> segments, int64_t first_id, int64_t begin_id);
  void EvictBefore(int64_t begin_id);

  // The number of sequences that can be drawn, and the first row of the one with `rank` sequences
  // before it, in the order of first rows.
  int64_t size() const { return starts_.size(); }
  int64_t Select(int64_t rank) const { return starts_.Select(rank); }

  // With Options::lists_added: the first rows of the sequences that the last Append() has added, each once,
  // in no particular order.
  absl::Span<const int64_t> added() const { return added_; }
  // The number of rows of the longest run so far, evicted rows included; after Load() that of the rows
  // which were loaded, at first.
  int64_t longest_run() const { return longest_run_; }

  // Returns the row with which the run goes on after valid row `id` of `store`. -1: there is none (yet).
  int64_t NextRow(const RowStore& store, int64_t id) const {
    const int64_t next = store.Next(id).id;
    return next >= 0 || !episodes_.has_value() ? next : episodes_->Next(id);
  }
  // Whether a valid row begins an episode. Only for an index across episodes.
  bool BeginsEpisode(int64_t id) const { return episodes_->Begins(id); }

  // Returns a copy of what the index knows about the rows of `store`.
  StateSnapshot Snapshot(const RowStore& store) const;
  // Loads into a new index. kInvalidArgument for anything that no index of the rows of `store` can
  // have written.
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
  void AddSequence(int64_t id, int64_t begin_id);
  void EndRun(Run* run, bool with_the_episode, int64_t begin_id);
  void ForgetStreams(int64_t begin_id);
  bool IsNewest(const Run& run, const RowStore& store) const;
  int64_t LongestRun(const RowStore& store) const;

  const Options options_;
  const int64_t capacity_rows_;
  RankedIds starts_;
  std::vector<int64_t> added_;
  int64_t longest_run_ = 0;
  std::optional<EpisodeLinks> episodes_;    // across episodes
  absl::flat_hash_map<int64_t, Run> runs_;  // by stream
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_SEQUENCE_INDEX_H_
