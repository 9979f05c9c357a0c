// A ring of rows that is drawn as sequences of consecutive rows of one stream, for recurrent
// policies (stored state and burn-in: Kapturowski et al., "Recurrent experience replay in
// distributed reinforcement learning", ICLR 2019). EpisodeReplayBuffer draws whole episodes in the
// same way.
//
// A draw of B sequences of T rows is a batch of [B * T] rows, with row t of sequence b at b * T +
// t: a column [B * T, ...] is a dense [B, T, ...]. A batch has the columns of NaiveReplayBuffer and
// these:
//
//   mask     bool  []  0: the row is padding, a repetition of the sequence's last row
//   burn_in  bool  []  1: the row is among the first `burn_in`, which only warm up the recurrent
//                      state
//   is_first bool  []  with `cross_episodes` only. 1: the row begins an episode, so the recurrent
//                      state must be reset before it; 0 in padding
//
// The recurrent state can be any field that the policy adds to its rows. The state that was stored
// when the first row of sequence b was collected is at row b * T.
//
// A sequence never crosses the end of an episode, nor steps that its stream lost. The first rows of
// sequences are `unroll_len - overlap` rows apart, counted from the first row of the episode or
// from the row after lost steps. Sequences that are cut short there are left out. With `padding`
// they are filled up, and can be drawn once the episode has ended or the stream has gone on after
// the lost steps. A full ring evicts its oldest rows, and with each row the sequence that begins
// there.
//
// With `cross_episodes` a sequence continues with the next episode of its stream, and ends only
// where the stream lost steps. First rows are then `unroll_len - overlap` rows apart in the stream:
//
//     episodes   a0 a1 a2 a3 a4 | b0 b1 | c0 c1 ...       unroll_len = 4, overlap = 1
//                [---------]
//                         [-----------]                   is_first: 0 0 1 0
//                                    [-------- ...
//
// Nothing else crosses the end of an episode: next_obs, n-step windows and stacks of frames stay
// within the episode of their row, so that next_obs of a4 is the observation after a4, not the
// observation of b0.
//
// SampleOptions::sequence sets T of one draw; it must be above `burn_in`. These sequences begin
// where sequences of `unroll_len` rows begin. If T is above `unroll_len`, sequences that reach the
// end or the newest row of their episode are padded, whatever `padding` says. A T above the longest
// run of rows so far is refused.
//
// With Options::priority, sequences are drawn in proportion to priority^alpha, and batches also
// have the columns weight, priority and replay_buffer_idx (advanced_buffer.h has the formulas). All
// T rows of a sequence have the same values, and Update() takes the replay_unique_id of its first
// row and skips rows that begin no sequence. A sequence that can be drawn for the first time gets
// the largest priority that Update() was ever given, at least 1. As in AdvancedReplayBuffer, a
// sequence with more than 1/B of the total weight can occur more than once in a batch, and with a
// selector of your own all importance weights are 1. Pushed rows must have no column "priority".
//
// count() is the number of sequences that can be drawn. SampleOptions::newest and range count
// sequences, ordered by the age of their first rows. Draws are uniform over sequences, and without
// replacement unless SampleOptions::replace is set: the sequences of a batch then differ, but may
// overlap.
//
// Ownership: copies the rows that are pushed.
// Threads:   thread-safe. Rows are chosen under the lock, in O(B (T + log capacity)), and copied
//            after it. A snapshot holds the lock while it copies 8 bytes per sequence (and 8 per
//            row with `priority`), and looks at 4 bytes per row with `cross_episodes`.
// Errors:    as IBuffer says; all begin with the buffer's name.
//
// Example:
//   SequenceReplayBuffer::Options options;
//   options.unroll_len = 80;
//   options.burn_in = 40;
//   options.overlap = 40;
//   DING_ASSIGN_OR_RETURN(const auto buffer, SequenceReplayBuffer::Create(options));
//   DING_RETURN_IF_ERROR(buffer->Push(segments, envstep));
//   DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(64, train_iter));  // 5120 rows
#ifndef DING_WORKER_REPLAY_BUFFER_SEQUENCE_BUFFER_H_
#define DING_WORKER_REPLAY_BUFFER_SEQUENCE_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/composed_buffer.h"
#include "ding_worker/replay_buffer/selection/importance_weights.h"

namespace ding {

class SequenceReplayBuffer : public ComposedBuffer {
 public:
  struct Options : RingOptions {
    // T, burn-in included. Not set: only complete episodes are drawn, each as a whole; T is then
    // the length of the longest episode drawn.
    std::optional<int64_t> unroll_len = 80;
    int64_t burn_in = 0;  // below unroll_len
    // Rows that two consecutive sequences share; not set: unroll_len - 1, so that every row
    // may begin a sequence. Not for whole episodes.
    std::optional<int64_t> overlap;
    // Whether to also draw sequences that the end of an episode or lost steps cut short, filled up
    // with padding. With cross_episodes only lost steps cut a sequence short. Not for whole
    // episodes.
    bool padding = false;
    // Sequences continue with the next episode of their stream. Not for whole episodes.
    bool cross_episodes = false;
    // Draws sequences in proportion to their priorities; not set: all with the same probability.
    std::optional<PriorityOptions> priority;
  };

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);
  // Returns kInvalidArgument, with all Problems(), if there are any.
  static absl::StatusOr<std::unique_ptr<SequenceReplayBuffer>> Create(const Options& options);

  // Besides what IBuffer says, Push() returns the errors of NaiveReplayBuffer, and at the first
  // push kInvalidArgument if fewer than unroll_len rows fit in capacity_bytes. Sample() draws
  // `size` sequences. It returns kFailedPrecondition if fewer sequences are long enough; the
  // message has the numbers of sequences and rows. If no sequence is long enough, it also has the
  // longest run of rows so far, and what to set. Update() with priorities returns the errors of
  // AdvancedReplayBuffer. LoadState() returns kInvalidArgument if the saved sequences have
  // priorities and this buffer has none, or has another beta or anneal_step. A buffer with
  // priorities can load sequences without: they then have priority 1, and beta has its first value.

  // Returns the number of rows, without padding, of each sequence that can be drawn, the one with
  // the oldest first row first.
  std::vector<int64_t> SequenceLengths() const;

 protected:
  // `on_removed` is for items, which only whole episodes may be.
  explicit SequenceReplayBuffer(const Options& options, OnRemoved on_removed = nullptr);
};

// A ring of rows that is drawn as whole episodes, for policies that learn from complete episodes.
// An episode can be drawn once its end, terminated or truncated, has arrived, and until its first
// row is evicted. The first row of a stream counts as the first row of an episode. An episode that
// lost steps is never complete.
//
// A draw of B episodes is a batch of [B * T] rows, where T is the length of the longest one;
// shorter ones are padded. Columns and order are as in SequenceReplayBuffer, and T = rows / B.
// count() is the number of complete episodes. SampleOptions::newest and range count episodes,
// ordered by the age of their first rows. The capacity is in rows: an episode that is longer is
// never complete.
//
// Rows may be items (data/items.h), as in a parallel run. Each item then stands for a whole episode
// of `length` rows, which are stored elsewhere. A draw is a batch of items, and count() is the
// number of items. A capacity in rows bounds the rows of all episodes together; the oldest episodes
// leave first. A capacity in bytes bounds the memory of the items.
//
// Ownership: copies the rows that are pushed.
// Threads:   thread-safe, as SequenceReplayBuffer.
// Errors:    as IBuffer says; all begin with the buffer's name.
class EpisodeReplayBuffer : public SequenceReplayBuffer {
 public:
  struct Options : RingOptions {
    OnRemoved on_removed;  // only for rows that are items
  };

  // Returns a sentence for each option that is out of range.
  static std::vector<std::string> Problems(const Options& options);

  // Returns kInvalidArgument, with all Problems(), if there are any.
  static absl::StatusOr<std::unique_ptr<EpisodeReplayBuffer>> Create(const Options& options);

  // Push() returns kInvalidArgument if on_removed is set and the rows are not items, or if an item
  // is an episode without rows.

  // Returns the number of rows of each complete episode, the oldest first.
  std::vector<int64_t> episode_len() const { return SequenceLengths(); }

 private:
  using SequenceReplayBuffer::SequenceReplayBuffer;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SEQUENCE_BUFFER_H_
