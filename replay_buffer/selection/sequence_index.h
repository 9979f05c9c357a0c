// Which rows begin sequences (SequenceIndex), follow each other in an episode (EpisodeLinks), and
// have which rank (RankedIds).
//
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
#include "ding_worker/replay_buffer/storage/row_store.h"

namespace ding {

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

// A set of row ids from a sliding range, which finds the k-th smallest id in O(log capacity). It is
// a Fenwick tree (Fenwick 1994) of counts over the ring of the last `capacity` ids. The tree does
// not depend on the order in which ids were inserted, so a set that was saved and loaded is the
// same.
//
// Memory:  4 bytes per id of the capacity, rounded up to a power of two.
class RankedIds {
 public:
  // Memory per id of the capacity, at most.
  static constexpr int64_t kBytesPerId = 8;

  // Creates an empty set for ids in [begin, begin + capacity), 1 <= capacity <= 2^29.
  explicit RankedIds(int64_t capacity, int64_t begin = 0);

  int64_t size() const { return size_; }
  // Inserts an id that is in the range and not in the set.
  void Insert(int64_t id);
  // Lets the range begin at `begin` and removes the ids below it.
  void EvictBefore(int64_t begin);
  // Returns the id that has `rank` smaller ids in the set, 0 <= rank < size().
  int64_t Select(int64_t rank) const;

 private:
  int64_t SlotOf(int64_t id) const { return id & mask_; }
  void Add(int64_t slot, int32_t count);
  // The number of ids in the slots below `slot`.
  int64_t CountBelow(int64_t slot) const;

  int64_t mask_;
  int64_t begin_;
  int64_t size_ = 0;
  std::vector<int32_t> tree_;  // node i, from 1 on: the slots [i - lowest bit of i, i)
};

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

  // The number of sequences that can be drawn, and the first row of the sequence that has `rank`
  // sequences before it, in the order of first rows.
  int64_t size() const { return starts_.size(); }
  int64_t Select(int64_t rank) const { return starts_.Select(rank); }

  // With Options::lists_added: the first rows of the sequences that the last Append() has added,
  // each once, in no particular order.
  absl::Span<const int64_t> added() const { return added_; }
  // The number of rows of the longest run so far, evicted rows included; after Load() at first the
  // longest run among the loaded rows.
  int64_t longest_run() const { return longest_run_; }

  // Returns the row with which the run goes on after valid row `id` of `store`. -1: there is none
  // (yet).
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
