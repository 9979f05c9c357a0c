// Builds segments: stores the rows of several envs, one vector step after the other, and returns
// them as runs of consecutive rows per stream.
//
//     Append(obs) ──► rows of the arena ──► the policy writes its outputs to them
//     Store(timesteps) ──► reward and end of each row
//     Take(n) ──► SegmentBatch: the arena itself if the rows of each segment are contiguous in it, else
//                 a gathered copy
//
// A row has the observation fields, the output fields of the policy, `reward` [] float32 (or [R],
// if the env's rewards have R components), `collect_iter` [] int64, optionally `level_seed` []
// int64, and the fields that the env declares in EnvSpec::info. An observation is copied once, from
// the block of the env manager to the arena.
//
// `step` numbers the rows of stream `stream_base + env`. Dropped rows keep their number, so that
// there is a gap where rows are missing and no buffer links across it.
//
// A truncated episode whose last observation allows no action (policy/action_space.h) is stored as
// terminated, because nothing can follow: no policy needs the value of an action that is forbidden.
// The first such episode is logged.
//
// It counts samples (CollectAttributes::unroll_len): each unroll_len rows of an episode, counted
// from its first row, are a sample, and so are the rows that are left at its end. After a gap, and
// after Take() with Options::cut_samples, counting begins anew.
//
// With Options::maxlen it holds a bounded number of rows of a running episode, however long the
// episode is.
//
// Ownership: owns its arena; the result of Take() owns its memory. Blocks come from pools, and
//            return to them after their last use.
// Threads:   thread-compatible.
// Errors:    kResourceExhausted if there is not enough memory for the rows.
//
// Example:
//   TrajBuffer traj(layout, options);
//   DING_ASSIGN_OR_RETURN(const TrajBuffer::Appended added, traj.Append(envs->ready_obs(), iter, {}));
//   DING_RETURN_IF_ERROR(policy->Forward(added.obs, env_ids, settings, added.output));
//   DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps, envs->Step(env_ids, added.output));
//   DING_RETURN_IF_ERROR(traj.Store(*timesteps));
//   DING_ASSIGN_OR_RETURN(const SegmentBatch data, traj.Take(traj.ready_rows(), envs->ready_obs()));
#ifndef DING_WORKER_COLLECTOR_CORE_TRAJ_BUFFER_H_
#define DING_WORKER_COLLECTOR_CORE_TRAJ_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/cache_pool.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

// The layout of a collected row.
struct TrajLayout {
  SpecPtr observation;  // fields [0, observation->size())
  SpecPtr output;       // the output fields of the policy, after the observation
  SpecPtr row;
  int reward = 0;
  size_t reward_components = 0;  // R of a reward [R]; 0: it is a number
  int collect_iter = 0;
  int level_seed = -1;  // -1: not stored
  SpecPtr info;         // EnvSpec::info; null: there are no such fields
  int first_info = 0;
  std::optional<int> mask;             // the action mask among the fields of the observation
  std::vector<int64_t> action_counts;  // if there is a mask: the categories of each element

  // kInvalidArgument if two fields have the same name, or the mask does not fit the action.
  static absl::StatusOr<TrajLayout> Create(SpecPtr observation, SpecPtr output,
                                           bool with_level_seed, const Shape& reward_shape = {},
                                           const SpecPtr& info = nullptr);
};
bool operator==(const TrajLayout& a, const TrajLayout& b);
inline bool operator!=(const TrajLayout& a, const TrajLayout& b) { return !(a == b); }

// Some or all of the ready envs, for which to act: the observation of env_ids[i] is row rows[i] of
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
    // The stream of env i is stream_base + i * stream_stride.
    int64_t stream_base = 0;
    int64_t stream_stride = 1;
    // Whether to return the rows of an episode only when it is complete. The rest of an episode
    // whose beginning was dropped counts as complete.
    bool whole_episodes = false;
    // The most rows of the running episode of an env to hold, at least 1. With whole_episodes a
    // further row drops the oldest one. Without whole_episodes the rows are a trajectory: they are
    // ready together when there are `maxlen` of them or the episode is over. Not set: there is no
    // bound; without whole_episodes each row is ready at once.
    std::optional<int64_t> maxlen;
    // The rows of a sample, at least 1.
    int64_t unroll_len = 1;
    // Whether Take() ends the sample of a running episode, so that the next row begins another one.
    bool cut_samples = false;
  };

  TrajBuffer(TrajLayout layout, Options options);
  TrajBuffer(TrajBuffer&&) = default;
  TrajBuffer& operator=(TrajBuffer&&) = default;

  const TrajLayout& layout() const { return layout_; }
  const Options& options() const { return options_; }
  // Whether `other` has the same layout, number of envs and options.
  bool Fits(const TrajBuffer& other) const;
  // Call it on a buffer that replaces `old`. Continues the step numbers of `old`; with another
  // number of envs, each stream continues after the highest of them. Continues the unfinished
  // samples, too, if `old` has no rows left, and as many envs and the same unroll_len.
  void ContinueAfter(const TrajBuffer& old);
  // The step of the next row of each stream.
  absl::Span<const int64_t> next_step() const { return next_step_; }

  // Makes room for `rows` further rows, so that Append() need not grow the arena.
  absl::Status Reserve(int64_t rows);

  struct Appended {
    ColumnsView obs;            // the copied observations
    MutableColumnsView output;  // the policy must write these fields before Store()
  };
  // Adds one row per env with its observation, `collect_iter` and, if the layout has it, its level
  // seed (level_seeds[env]). The views are valid until the next call. No env may have a row whose
  // answer is pending. May drop the oldest row of the running episode of each env
  // (Options::maxlen).
  absl::StatusOr<Appended> Append(const ActingEnvs& acting, int64_t collect_iter,
                                  absl::Span<const int64_t> level_seeds);
  // Stores the answers of the envs. An abnormal step drops its row and the stored rows of its
  // episode. kInternal if an env has no pending row, or an episode ends without last observation.
  absl::Status Store(const Timesteps& timesteps);
  // For a player that ends before its game. Call it before the Store() of the player's last row.
  // Until EndGame(), the episode is not complete, and DropEpisode() drops its rows.
  void LeaveGame(int env_id) { out_of_game_[env_id] = 1; }
  // Ends the game, whether or not LeaveGame() was called. The next row of the stream gets at least
  // the step `next_step`, so that all players number the rows of the next game alike.
  void EndGame(int env_id, int64_t next_step);
  // Drops the pending row of this env and the stored rows of its running episode, which does not
  // continue.
  void DropEpisode(int env_id);
  // Drops the rows that wait for the end of their episode, but no pending rows.
  void DropHeldRows();
  // Calls `reshape` with the rows of the last finished episode of this env, oldest first, and their
  // rewards [T] or [T, R], which it may change. A failure changes nothing. Only with
  // whole_episodes, before Take().
  absl::Status ReshapeRewards(
      int env_id,
      absl::FunctionRef<absl::Status(const ColumnsView& rows, absl::Span<float> rewards)> reshape);

  // The number of rows that Take() can return.
  int64_t ready_rows() const { return ready_rows_; }
  // The number of complete samples whose last row is ready; ready_rows() if unroll_len is 1.
  int64_t ready_samples() const { return ready_samples_; }
  // The number of rows that wait for the rest of their episode or for the answer of their env.
  int64_t held_rows() const { return arena_.used - ready_rows_ - dropped_rows_; }
  // Whether the row of this env waits for the answer of the env.
  bool under_way(int env_id) const { return under_way_.Get(env_id) != nullptr; }

  // Returns at most `max_rows` of the ready rows, with segments in the order of their first row,
  // and drops the others:
  //   - the newest rows, so that the segments before them end as kCut;
  //   - with whole_episodes, the first rows of the episode that ended last, so that all returned
  //     rows reach the end of their episode.
  // `now` has the observations after the newest rows.
  absl::StatusOr<SegmentBatch> Take(int64_t max_rows, const ReadyObs& now);
  // The number of samples that were completed in each segment of the last Take(), valid until the
  // next one.
  absl::Span<const int64_t> taken_samples() const { return taken_samples_; }

  // Does not save pending rows. Their envs begin a new episode after a load, and the caller must
  // then call DropEpisode() for them.
  absl::Status SaveState(StateWriter* writer) const;
  // kInvalidArgument if the saved state has another layout or number of envs.
  absl::Status LoadState(StateReader* reader);

 private:
  enum class RowState : uint8_t {
    kUnderWay = 0,  // the env has not answered
    kOpen = 1,      // the episode continues
    kTerminated = 2,
    kTruncated = 3,
    kDropped = 4,
  };
  // The state of a row of the arena.
  struct RowInfo {
    int64_t step = 0;
    int64_t prev = -1;       // the previous row of its stream, if it is in the arena
    int64_t next = -1;       // the next row, likewise
    int64_t final_row = -1;  // index in finals_ for the last row of an episode
    int env_id = 0;
    RowState state = RowState::kUnderWay;
    bool ready = false;
    bool ends_sample = true;
  };
  // The rows of the running episode of an env that are in the arena and were not dropped.
  struct RunningEpisode {
    int64_t oldest = -1;
    int64_t rows = 0;
  };
  // A growing block.
  struct Rows {
    explicit Rows(const SpecPtr& spec) : pool(std::make_unique<BlockPool>(spec)) {}
    // Makes room for `extra` rows after the first `used`, which are kept.
    absl::Status Grow(int64_t extra);

    std::unique_ptr<BlockPool> pool;
    std::optional<BatchBuilder> block;
    int64_t used = 0;
  };

  // Whether the row is the last one of a player of a game that goes on.
  bool EndedEarly(int64_t row) const {
    const int env_id = infos_[row].env_id;
    return out_of_game_[env_id] != 0 && newest_[env_id] == row && Ended(row);
  }
  bool Ended(int64_t row) const {
    const RowState state = infos_[row].state;
    return state == RowState::kTerminated || state == RowState::kTruncated;
  }
  // Whether the mask of the last observation `final_row`, if there is one, allows an action.
  bool AllowsAction(int64_t final_row) const;
  bool Follows(int64_t row, int64_t previous) const {
    return !Ended(previous) && infos_[row].step == infos_[previous].step + 1;
  }
  // Whether an answered row ends a trajectory, so that the rows of its episode become ready. If so,
  // the count of its rows begins at 0 again.
  bool EndsTrajectory(int env_id, bool complete);
  // Marks a row as ready, and the earlier rows of its episode that are held.
  void MarkReady(int64_t row);
  void DropRow(int64_t row);
  void DropNewest(int64_t excess);
  void DropOfLastEpisodes(int64_t excess);
  // Inline, because it is called for each row.
  bool BeginsSegment(int64_t row) const {
    const int64_t prev = infos_[row].prev;
    return prev < 0 || !infos_[prev].ready || !Follows(row, prev);
  }
  // Returns the number of samples that end in the rows of a segment, which are in order_.
  int64_t CountSamples(const Segment& segment) const;
  // Returns the segments and fills order_ with their arena rows, and taken_samples_.
  std::vector<Segment> FindSegments();
  absl::StatusOr<Batch> FinalObs(const std::vector<Segment>& segments, const ReadyObs& now);
  // Returns the rows of order_: the arena itself, or a copy.
  absl::StatusOr<Batch> TakeRows();
  // Drops the oldest rows of the running episode of this env until it has fewer than maxlen.
  void MakeRoomInEpisode(int env_id);
  // Makes a new arena of the rows that are not dropped and, if `also_ready` is false, not ready.
  absl::Status KeepRows(bool also_ready);
  // Computes links, final rows and readiness from step, env_id and state of the rows.
  void Link();
  // Whether a saved state says where samples end. States of older versions do not; counting then
  // begins anew.
  bool SavedSamples(const StateReader& reader) const;
  absl::StatusOr<std::vector<RowInfo>> LoadInfos(StateReader* reader) const;

  TrajLayout layout_;
  Options options_;
  Rows arena_;
  Rows finals_;                 // last observations of the episodes that end in the arena
  std::vector<RowInfo> infos_;  // one per row of the arena
  std::vector<int64_t> next_step_;
  std::vector<int64_t> newest_;          // per env: its newest row in the arena, or -1
  std::vector<RunningEpisode> running_;  // per env
  std::vector<int64_t> sample_rows_;     // per env: the rows of its unfinished sample so far
  std::vector<uint8_t> out_of_game_;     // per env: see LeaveGame()
  CachePool<int64_t> under_way_;         // the row of each env that has not answered
  int64_t ready_rows_ = 0;
  int64_t ready_samples_ = 0;
  int64_t dropped_rows_ = 0;  // dropped rows in the arena
  std::vector<int64_t> taken_samples_;
  std::vector<int64_t> order_;    // scratch of Take()
  std::vector<int64_t> now_row_;  // scratch of Take()
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_TRAJ_BUFFER_H_
