// Builds segments: takes the rows of several envs as they come, one vector step after the other,
// and hands them over as runs of consecutive rows per stream.
//
//     Append(obs) ──► rows of the arena ──► policy writes its outputs into them
//     Store(timesteps) ──► reward, and how each row ended
//     Take(n) ──► SegmentBatch: the arena itself if every segment's rows lie together in it, else
//                 one gather
//
// A row is: the observation fields, the policy's output fields, `reward` [] float32, `collect_iter`
// [] int64, and on request `level_seed` [] int64. An observation is copied once, from the env
// manager's block to the arena.
//
// Stream `stream_base + env` numbers its rows with `step`. Rows that are dropped keep their number,
// so that a gap stands where rows are missing and no buffer links across it.
//
// Ownership: owns its arena; what Take() returns owns its memory. Blocks come from pools and return
//            to them when the consumer lets go.
// Threads:   thread-compatible.
// Errors:    kResourceExhausted when there is no memory for the rows.
#ifndef DING_WORKER_COLLECTOR_TRAJ_BUFFER_H_
#define DING_WORKER_COLLECTOR_TRAJ_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/cache_pool.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

// Where the fields of a collected row are.
struct TrajLayout {
  SpecPtr observation;  // fields [0, observation->size())
  SpecPtr output;       // the policy's, after those
  SpecPtr row;
  int reward = 0;
  int collect_iter = 0;
  int level_seed = -1;  // -1: not stored

  // kInvalidArgument if two fields have one name.
  static absl::StatusOr<TrajLayout> Create(SpecPtr observation, SpecPtr output,
                                           bool with_level_seed);
};
bool operator==(const TrajLayout& a, const TrajLayout& b);
inline bool operator!=(const TrajLayout& a, const TrajLayout& b) { return !(a == b); }

// Envs to act upon, some of those that are ready or all of them: env_ids[i] shows row rows[i] of
// `obs`, or row i if `rows` is empty.
struct ActingEnvs {
  ActingEnvs() = default;
  ActingEnvs(const ReadyObs& all) : env_ids(all.env_ids), obs(all.obs) {}  // NOLINT: all of them.
  ActingEnvs(absl::Span<const int> ids, const ColumnsView& of_ready,
             absl::Span<const int64_t> rows_of_ready)
      : env_ids(ids), obs(of_ready), rows(rows_of_ready) {}

  absl::Span<const int> env_ids;
  ColumnsView obs;
  absl::Span<const int64_t> rows;
};

class TrajBuffer {
 public:
  struct Options {
    int env_num = 0;
    // Stream of env i: stream_base + i * stream_stride.
    int64_t stream_base = 0;
    int64_t stream_stride = 1;
    // Hand the rows of an episode over when it is complete, not before. The rest of an episode
    // whose beginning was dropped counts as complete.
    bool whole_episodes = false;
  };

  TrajBuffer(TrajLayout layout, Options options);
  TrajBuffer(TrajBuffer&&) = default;
  TrajBuffer& operator=(TrajBuffer&&) = default;

  const TrajLayout& layout() const { return layout_; }
  const Options& options() const { return options_; }
  // Whether `other` has rows of the same layout, the same envs and hands rows over alike.
  bool Fits(const TrajBuffer& other) const;
  // Numbers its rows on from those of `old`, in whose place it comes.
  void ContinueAfter(const TrajBuffer& old);
  // Number that the next row of each stream will have.
  absl::Span<const int64_t> next_step() const { return next_step_; }

  // Makes room for `rows` more than there are, so that Append() has not to.
  absl::Status Reserve(int64_t rows);

  struct Appended {
    ColumnsView obs;            // what was copied
    MutableColumnsView output;  // the policy's fields, to be written before Store()
  };
  // Adds one row per env, with its observation, `collect_iter` and, if the layout has it, its level
  // seed (level_seeds[env]). The views hold until the next call. None of the envs may have a row
  // under way.
  absl::StatusOr<Appended> Append(const ActingEnvs& acting, int64_t collect_iter,
                                  absl::Span<const int64_t> level_seeds);
  // What the envs answered. An abnormal step drops its row and those of its episode that are still
  // here. kInternal if an env has no row under way, or an episode ends without last observation.
  absl::Status Store(const Timesteps& timesteps);
  // Drops the row under way of this env and those of its running episode that are still here: the
  // episode does not go on, or not from here.
  void DropEpisode(int env_id);
  // Drops the rows that wait for the end of their episode. Rows under way stay.
  void DropHeldRows();
  // Calls `reshape` with the rows of the episode that this env finished last, oldest first, and
  // their rewards, to be changed. A failure changes nothing. Only with whole_episodes, before
  // Take().
  absl::Status ReshapeRewards(
      int env_id,
      absl::FunctionRef<absl::Status(const ColumnsView& rows, absl::Span<float> rewards)> reshape);

  // Rows that Take() can hand over.
  int64_t ready_rows() const { return ready_rows_; }
  // Rows that wait for the rest of their episode, or for their env's answer.
  int64_t held_rows() const { return arena_.used - ready_rows_ - dropped_rows_; }
  // Whether this env's row still waits for the env's answer.
  bool under_way(int env_id) const { return under_way_.Holds(env_id); }

  // Hands over the rows that are ready, in the order of their first row, at most `max_rows` of
  // them; the others are dropped:
  //   - the newest ones, so that the segments before them end as kCut;
  //   - of whole episodes, the first rows of the episode that ended last, so that all rows see the
  //     end of their episode.
  // `now` holds the observations that follow the newest rows.
  absl::StatusOr<SegmentBatch> Take(int64_t max_rows, const ReadyObs& now);

  // A row under way is left out, as if dropped: its env begins a new episode when it is restored, and
  // DropEpisode() is to be called then.
  absl::Status SaveState(StateWriter* writer) const;
  // kInvalidArgument if what was saved has another layout or number of envs.
  absl::Status LoadState(StateReader* reader);

 private:
  enum class RowState : uint8_t {
    kUnderWay = 0,  // the env has not answered
    kOpen = 1,      // the episode goes on
    kTerminated = 2,
    kTruncated = 3,
    kDropped = 4,
  };
  // What is known of a row of the arena beside its columns.
  struct RowInfo {
    int64_t step = 0;
    int64_t prev = -1;       // row before it in its stream, if that is in the arena
    int64_t next = -1;       // row after it, likewise
    int64_t final_row = -1;  // in finals_, of the last row of an episode
    int env_id = 0;
    RowState state = RowState::kUnderWay;
    bool ready = false;
  };
  // A block that grows.
  struct Rows {
    explicit Rows(const SpecPtr& spec) : pool(std::make_unique<BlockPool>(spec)) {}
    // Room for `extra` rows beyond `used`, keeping those.
    absl::Status Grow(int64_t extra);

    std::unique_ptr<BlockPool> pool;
    std::optional<BatchBuilder> block;
    int64_t used = 0;
  };

  bool Ended(int64_t row) const;
  bool Follows(int64_t row, int64_t previous) const;
  // Marks a row ready, and in whole-episode mode those before it in its episode.
  void MarkReady(int64_t row);
  void DropRow(int64_t row);
  void DropNewest(int64_t excess);
  void DropOfLastEpisodes(int64_t excess);
  bool BeginsSegment(int64_t row) const;
  // Also fills order_: the arena rows of all segments, one segment after the other.
  std::vector<Segment> FindSegments();
  absl::StatusOr<Batch> FinalObs(const std::vector<Segment>& segments, const ReadyObs& now);
  // The rows of order_: the arena itself, or a copy.
  absl::StatusOr<Batch> TakeRows();
  // Makes an arena of the rows that are not ready yet.
  absl::Status KeepHeldRows();
  // Sets what follows from step, env_id and state of the rows: links, final rows, what is ready.
  void Link();
  absl::StatusOr<std::vector<RowInfo>> LoadInfos(StateReader* reader) const;

  TrajLayout layout_;
  Options options_;
  Rows arena_;
  Rows finals_;                 // last observations of the episodes that ended in the arena
  std::vector<RowInfo> infos_;  // one per row of the arena
  std::vector<int64_t> next_step_;
  std::vector<int64_t> newest_;  // per env: its newest row in the arena, or -1
  CachePool under_way_;
  int64_t ready_rows_ = 0;
  int64_t dropped_rows_ = 0;      // of those in the arena
  std::vector<int64_t> order_;    // scratch of Take()
  std::vector<int64_t> now_row_;  // scratch of Take()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_TRAJ_BUFFER_H_
