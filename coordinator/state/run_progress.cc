#include "ding_worker/coordinator/state/run_progress.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/interaction/control/protocol.h"

namespace ding {

void RunProgress::Start() {
  DING_CHECK(!started_) << "the coordinator was started before";
  started_ = true;
  start_nanos_ = clock_->MonotonicNanos() - elapsed_before_nanos_;
}

bool RunProgress::BeginCollecting() {
  if (collecting_nanos_.has_value()) return false;
  collecting_nanos_ = clock_->MonotonicNanos();
  return true;
}

absl::Duration RunProgress::Elapsed() const {
  return absl::Nanoseconds(started_ ? clock_->MonotonicNanos() - start_nanos_
                                    : elapsed_before_nanos_);
}

int64_t RunProgress::train_iter() const {
  int64_t sum = 0;
  for (const auto& [policy_id, train_iter] : train_iters_) {
    const bool of_opponent = budgets_.has_opponent && absl::StartsWith(policy_id, kOpponentTask);
    if (!of_opponent) sum += train_iter;
  }
  return sum;
}

int64_t RunProgress::train_iter_of(const std::string& policy_id) const {
  const auto found = train_iters_.find(policy_id);
  return found == train_iters_.end() ? 0 : found->second;
}

void RunProgress::NoteReturns(absl::Span<const double> returns) {
  for (const double episode_return : returns) recent_returns_.Add(episode_return);
}

// Copies at most kMaxShown values. Their names come from workers, so they are made fit for people
// to read.
void RunProgress::Keep(const Settings& values, Settings* kept) {
  kept->Clear();
  for (const Setting& value : values) {
    if (kept->size() == kMaxShown) return;
    Setting* const added = kept->Add();
    added->set_name(ForPeople(value.name()));
    added->set_value(value.value());
  }
}

void RunProgress::NoteEvaluation(double mean_return) {
  best_return_ = std::max(best_return_, mean_return);
}

std::optional<std::string> RunProgress::UsedUpBudget() const {
  if (budgets_.max_env_step > 0 && env_steps_ >= budgets_.max_env_step) {
    return absl::StrCat(env_steps_, " env steps of ", budgets_.max_env_step);
  }
  if (budgets_.max_train_iter > 0 && train_iter() >= budgets_.max_train_iter) {
    return absl::StrCat(train_iter(), " train iterations of ", budgets_.max_train_iter);
  }
  if (started_ && TimeLeft() <= absl::ZeroDuration()) {
    return absl::StrCat("the time of ", absl::FormatDuration(budgets_.max_time), " is over");
  }
  return std::nullopt;
}

absl::Duration RunProgress::TimeLeft() const {
  if (budgets_.max_time <= absl::ZeroDuration()) return absl::InfiniteDuration();
  return budgets_.max_time - Elapsed();
}

void RunProgress::FillStatus(bool has_evaluation, RunStatus* status) const {
  if (started_) status->set_elapsed_seconds(absl::ToDoubleSeconds(Elapsed()));
  if (collecting_nanos_.has_value()) {
    const int64_t until = end_nanos_.value_or(clock_->MonotonicNanos());
    status->set_collecting_seconds(
        absl::ToDoubleSeconds(absl::Nanoseconds(until - *collecting_nanos_)));
  }
  status->set_envstep(env_steps_);
  status->set_train_iter(train_iter());
  if (has_evaluation) status->set_best_eval_value(best_return_);
  status->set_converged(converged_);
  if (const std::optional<double> recent = recent_returns_.Average()) {
    Setting* const shown = status->add_shown();
    shown->set_name("return");
    shown->set_value(*recent);
  }
  status->mutable_shown()->MergeFrom(reported_);
  status->mutable_shown()->MergeFrom(collect_settings_);
}

void RunProgress::Save(StateRecord* state) const {
  state->set_envstep(env_steps_);
  state->set_train_iter(train_iter());
  for (const auto& [policy_id, train_iter] : train_iters_) {
    TrainIterRecord* const record = state->add_policy_train_iter();
    record->set_policy_id(policy_id);
    record->set_train_iter(train_iter);
  }
  if (best_return_ > kNoReturn) state->set_best_eval_value(best_return_);
  state->set_elapsed_seconds(absl::ToDoubleSeconds(Elapsed()));
  if (collecting_nanos_.has_value()) {
    state->set_collecting_seconds(
        absl::ToDoubleSeconds(absl::Nanoseconds(clock_->MonotonicNanos() - *collecting_nanos_)));
  }
  state->set_converged(converged_);
}

void RunProgress::Load(const StateRecord& state) {
  env_steps_ = state.envstep();
  for (const TrainIterRecord& record : state.policy_train_iter()) {
    train_iters_[record.policy_id()] = record.train_iter();
  }
  if (state.has_best_eval_value()) best_return_ = state.best_eval_value();
  elapsed_before_nanos_ = absl::ToInt64Nanoseconds(absl::Seconds(state.elapsed_seconds()));
  if (state.has_collecting_seconds()) {
    collecting_nanos_ = clock_->MonotonicNanos() -
                        absl::ToInt64Nanoseconds(absl::Seconds(state.collecting_seconds()));
  }
  converged_ = state.converged();
}

}  // namespace ding
