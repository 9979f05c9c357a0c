// The rows of one buffer_id, and the demands of the learner that draws from them.
//
//     AddDemand ──► demands ──DrawFirst──► an answer, or too few rows: the demand waits on
//                                │
//     Removed ──► chunks that left ──► chunks()->TakeDeletable
//
// Limits decide when a push or a draw has to wait, by the rows pushed and drawn since the beginning
// of the run. While a demand waits for rows, no push waits, because the learner needs it.
//
// With Limits::rounds a buffer has the rows of an on-policy policy. A demand draws a round: the
// oldest rows, each once. Rows of too old a policy (LearnerDemand.collect_iter) are left out.
// Collectors wait after a push until rows are wanted again:
//
//     rows in the buffer + rows being collected  <  `ahead` rounds + a round if a demand waits
//
// So no row is used more than `ahead` versions after the version that collected it. The number of
// rows being collected is estimated from the number of collectors.
//
// Ownership: owns the buffer.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COORDINATOR_STATE_TASK_BUFFER_H_
#define DING_WORKER_COORDINATOR_STATE_TASK_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/coordinator/state/buffer_chunks.h"
#include "ding_worker/coordinator/state/learning_rounds.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"

namespace ding {

// Returns the chunks of `items`, each once, in the order of their numbers. Consecutive items of a
// chunk may share `overlap` rows, but not the first row.
//   kInvalidArgument  `worker` did not make one of the chunks; two items of a chunk share more
//                     rows; a row number that no chunk has
absl::StatusOr<std::vector<int64_t>> ChunksOf(const Batch& items, uint32_t worker,
                                              int64_t overlap = 0);

class TaskBuffer {
 public:
  struct Limits {
    std::optional<ReplayRatioLimiter::Options> replay_ratio;
    // The number of first rows, which are collected with random actions. No row is drawn before
    // they are pushed, and they do not count in the replay ratio.
    int64_t random_rows = 0;
    std::optional<LearningRounds> rounds;  // for an on-policy policy
  };

  // The most demands that wait for data, and the most answers that are not read.
  static constexpr size_t kMaxWaitingDemands = 64;
  static constexpr size_t kMaxUnreadDemands = 1024;

  explicit TaskBuffer(std::string id) : TaskBuffer(std::move(id), Limits()) {}
  TaskBuffer(std::string id, const Limits& limits, std::vector<std::string> settings = {});

  const std::string& id() const { return id_; }
  // The settings of the learner task for which the buffer was made.
  const std::vector<std::string>& settings() const { return settings_; }
  IBuffer* rows() const { return rows_.get(); }
  // Sets the buffer, once. The buffer is made after this object, because it reports removed items
  // to this object.
  void set_rows(std::unique_ptr<IBuffer> rows) { rows_ = std::move(rows); }

  // Returns how many rows were pushed since the beginning of the run, also under earlier
  // coordinators.
  int64_t rows_total() const { return rows_before_ + rows_->push_count(); }
  // The env steps of the policy that learns from this buffer.
  int64_t env_steps() const { return env_steps_; }
  void AddEnvSteps(int64_t steps) { env_steps_ += steps; }
  int64_t rows_lost() const { return rows_lost_; }
  int64_t rows_drawn() const { return rows_drawn_; }
  // Notes that the buffer has the rows of an earlier coordinator again. `record` has the counts of
  // that coordinator, and the data of `rows_lost` rows are gone. Call it before the first push.
  void Recovered(const BufferRecord& record, int64_t rows_lost);

  // Returns whether CheckPush() and Pushed() must be called for each push; the answer does not
  // change.
  bool limited() const { return limiter_.has_value(); }
  // Returns whether collectors wait for the learner at times.
  bool holds_pushes() const {
    return limits_.replay_ratio.has_value() && limits_.replay_ratio->min > 0;
  }
  // Checks whether `rows` rows may be pushed now.
  //   kUnavailable  the push has to wait
  absl::Status CheckPush(int64_t rows);
  // Counts rows that were pushed.
  void Pushed(int64_t rows);
  // Returns whether the buffer has the rows of an on-policy policy; the answer does not change.
  bool has_rounds() const { return limits_.rounds.has_value(); }
  // The number of collectors that work for this buffer, without waiting ones.
  int collecting() const { return collecting_; }
  void AddCollecting(int change) { collecting_ += change; }
  // Checks whether a collector may continue, given the rows in the buffer and the number of
  // collecting collectors. Only for buffers with rounds.
  //   kUnavailable  the collector has to wait
  absl::Status CheckGoOn(int64_t rows, int collecting) const;
  // Returns whether collectors of this buffer act at random for now.
  bool wants_random_rows() const { return rows_pushed_ < limits_.random_rows; }

  // Whether a learner has started, so that collecting for it makes sense.
  bool started() const { return started_; }
  void set_started() { started_ = true; }
  // Whether the last task that learned from the buffer is over.
  bool closed() const { return closed_; }
  void set_closed() { closed_ = true; }
  // The worker that runs the task of the learner.
  std::optional<uint32_t> learner() const { return learner_; }
  void set_learner(uint32_t worker) { learner_ = worker; }
  // Drops the demands of the learner; the next learner numbers its demands from 1.
  void ForgetLearner();

  // Appends a demand of the learner.
  //   kResourceExhausted  too many demands wait, or too many answers are not reported read
  absl::Status AddDemand(const LearnerDemand& demand);
  bool has_demand() const { return !demands_.empty(); }
  const LearnerDemand& first_demand() const { return demands_.front(); }
  // Answers the first demand with as many of its batches as there are rows for, at least one; if
  // `whole`, with all of them. Rows of bad chunks are replaced by other draws; a row may then be in
  // a batch twice.
  //
  // With rounds the answer has the oldest rows, each once, and at least as many as demanded: if n
  // times as many are there, an n-th of all; if `whole`, all. Rows of bad chunks, and rows that are
  // too old, are left out.
  //   kFailedPrecondition  there are too few rows, or the replay ratio allows no batch now: the
  //                        demand waits
  //   otherwise            the error of the buffer
  absl::StatusOr<LearnerData> DrawFirst(bool whole = false);
  // The number of rows that were left out because they were too old, since this coordinator began.
  int64_t rows_too_old() const { return rows_too_old_; }
  // The mean number of train iterations since the rows drawn last were collected; nullopt: no rows
  // were drawn.
  std::optional<double> staleness() const { return staleness_; }

  // Notes that the buffer has removed these items.
  void Removed(const RemovedItems& removed);
  BufferChunks* chunks() { return &chunks_; }

  void FillStatus(BufferStatus* status) const;

 private:
  // Lowers demand->batches to the number that the replay ratio allows now.
  //   kFailedPrecondition  it allows none
  absl::Status CheckRatio(LearnerDemand* demand);

  const std::string id_;
  const Limits limits_;
  const std::vector<std::string> settings_;
  std::optional<ReplayRatioLimiter> limiter_;
  std::unique_ptr<IBuffer> rows_;
  int64_t rows_before_ = 0;  // pushed, and not counted by the buffer
  int64_t rows_lost_ = 0;
  int64_t env_steps_ = 0;
  int collecting_ = 0;
  int64_t rows_pushed_ = 0;  // under all coordinators of the run; counted only if limited()
  bool started_ = false;
  bool closed_ = false;
  std::optional<uint32_t> learner_;
  std::deque<LearnerDemand> demands_;
  bool hungry_ = false;  // a demand waits for rows, and no rows came since it was tried
  int64_t rows_drawn_ = 0;
  int64_t rows_removed_ = 0;
  int64_t rows_too_old_ = 0;
  BufferChunks chunks_;
  std::optional<double> staleness_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_TASK_BUFFER_H_
