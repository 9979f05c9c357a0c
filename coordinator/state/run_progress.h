// How far the run has come, and the budgets that end it: time, env steps, train iterations,
// returns.
//
// A run that goes on under a new coordinator goes on counting (Load).
//
// Ownership: a value of the coordinator; the clock outlives it.
// Threads:   thread-compatible: the caller holds the coordinator's lock.
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
  };

  RunProgress(const Budgets& budgets, const Clock* clock) : budgets_(budgets), clock_(clock) {}

  // The time of the run begins. Once.
  void Start();
  bool started() const { return started_; }
  // The time of the run is over.
  void End() { end_nanos_ = clock_->MonotonicNanos(); }
  // A task collects. True: it is the first one of the run.
  bool BeginCollecting();
  // Since the beginning of the run, also under earlier coordinators.
  absl::Duration Elapsed() const;

  // Env steps of tasks that are over.
  int64_t finished_steps() const { return finished_steps_; }
  void AddFinishedSteps(int64_t steps) { finished_steps_ += steps; }
  // The sum over all policies that were trained.
  int64_t train_iter() const;
  int64_t train_iter_of(const std::string& policy_id) const;
  void set_train_iter_of(const std::string& policy_id, int64_t train_iter) {
    train_iters_[policy_id] = train_iter;
  }
  // What the progress of the run shows: the returns of training episodes, what a learner has reported, and the
  // settings of a collecting task. Of the two lists the first kMaxShown values are kept.
  static constexpr int kMaxShown = 8;
  using Settings = google::protobuf::RepeatedPtrField<Setting>;
  void NoteReturns(absl::Span<const double> returns);
  void NoteReported(const Settings& values) { Keep(values, &reported_); }
  void NoteCollectSettings(const Settings& values) { Keep(values, &collect_settings_); }
  // The mean return of an evaluation.
  void NoteEvaluation(double mean_return);
  bool converged() const { return converged_; }
  void set_converged() { converged_ = true; }

  // The budget that is used up, as a reason to end the run; none: the run goes on. `envsteps`:
  // those of tasks that run included.
  std::optional<std::string> UsedUpBudget(int64_t envsteps) const;
  // Until max_time is over; infinite without that budget.
  absl::Duration TimeLeft() const;

  // `has_evaluation`: the status of the run has a last return, and so the best one.
  void FillStatus(int64_t envsteps, bool has_evaluation, RunStatus* status) const;
  // For the journal.
  void Save(int64_t envsteps, StateRecord* state) const;
  // Goes on with what Save() wrote. Before Start().
  void Load(const StateRecord& state);

 private:
  static constexpr double kNoReturn = -std::numeric_limits<double>::infinity();

  static void Keep(const Settings& values, Settings* kept);

  const Budgets budgets_;
  const Clock* const clock_;
  bool started_ = false;
  int64_t start_nanos_ = 0;                  // as if the whole run had been under this coordinator
  int64_t elapsed_before_nanos_ = 0;         // under earlier coordinators
  std::optional<int64_t> collecting_nanos_;  // of the first task that collects
  std::optional<int64_t> end_nanos_;
  int64_t finished_steps_ = 0;
  std::map<std::string, int64_t> train_iters_;  // by policy
  WindowAverage recent_returns_{20};
  Settings reported_;
  Settings collect_settings_;
  double best_return_ = kNoReturn;
  bool converged_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_RUN_PROGRESS_H_
