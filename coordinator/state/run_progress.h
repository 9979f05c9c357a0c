// The progress of the run (time, env steps, train iterations, returns), and the budgets that end
// it.
//
// If a new coordinator continues the run, it counts on from the saved progress (Load()).
//
// Ownership: a value of the coordinator; the clock must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COORDINATOR_STATE_RUN_PROGRESS_H_
#define DING_WORKER_COORDINATOR_STATE_RUN_PROGRESS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/averages.h"
#include "google/protobuf/repeated_field.h"

namespace ding {

class RunProgress {
 public:
  // 0: no limit.
  struct Budgets {
    int64_t max_env_step = 0;
    int64_t max_train_iter = 0;
    absl::Duration max_time = absl::ZeroDuration();
    bool has_opponent = false;  // whether policies named after kOpponentTask count as opponents
  };

  RunProgress(const Budgets& budgets, const Clock* clock) : budgets_(budgets), clock_(clock) {}

  // Starts the run's clock. Call it once.
  void Start();
  bool started() const { return started_; }
  // Stops the clock of collecting.
  void End() { end_nanos_ = clock_->MonotonicNanos(); }
  // Notes that a collecting task has started. Returns whether it is the first one of the run.
  bool BeginCollecting();
  // The time since the beginning of the run, also under earlier coordinators.
  absl::Duration Elapsed() const;

  int64_t env_steps() const { return env_steps_; }
  void AddEnvSteps(int64_t steps) { env_steps_ += steps; }
  // The sum over all policies that were trained, without the opponents of Budgets::has_opponent.
  int64_t train_iter() const;
  int64_t train_iter_of(const std::string& policy_id) const;
  void set_train_iter_of(const std::string& policy_id, int64_t train_iter) {
    train_iters_[policy_id] = train_iter;
  }
  // Note what the status shows: the returns of training episodes, the values of a learner, and the
  // settings of a collecting task. The first kMaxShown of a learner's values and of the settings
  // are kept.
  static constexpr int kMaxShown = 8;
  using Settings = google::protobuf::RepeatedPtrField<Setting>;
  void NoteReturns(absl::Span<const double> returns);
  void NoteReported(const Settings& values) { Keep(values, &reported_); }
  void NoteCollectSettings(const Settings& values) { Keep(values, &collect_settings_); }
  // Notes the mean return of an evaluation.
  void NoteEvaluation(double mean_return);
  bool converged() const { return converged_; }
  void set_converged() { converged_ = true; }

  // Returns a sentence about the budget that is used up; nullopt if none is.
  std::optional<std::string> UsedUpBudget() const;
  // The time until max_time is over; infinite without that budget.
  absl::Duration TimeLeft() const;

  // Fills in the fields of the status. Only with `has_evaluation` the run has a best return.
  void FillStatus(bool has_evaluation, RunStatus* status) const;
  // For the journal.
  void Save(StateRecord* state) const;
  // Continues from what Save() has written. Call it before Start().
  void Load(const StateRecord& state);

 private:
  static constexpr double kNoReturn = -std::numeric_limits<double>::infinity();

  static void Keep(const Settings& values, Settings* kept);

  const Budgets budgets_;
  const Clock* const clock_;
  bool started_ = false;
  int64_t start_nanos_ = 0;                  // as if this coordinator had run it all
  int64_t elapsed_before_nanos_ = 0;         // the time under earlier coordinators
  std::optional<int64_t> collecting_nanos_;  // when the first collecting task started
  std::optional<int64_t> end_nanos_;
  int64_t env_steps_ = 0;
  std::map<std::string, int64_t> train_iters_;  // by policy
  WindowAverage recent_returns_{20};
  Settings reported_;
  Settings collect_settings_;
  double best_return_ = kNoReturn;
  bool converged_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_RUN_PROGRESS_H_
