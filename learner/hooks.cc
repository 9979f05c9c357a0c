#include "ding_worker/learner/hooks.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/terminal.h"

namespace ding {
namespace {

// SavePeriodicallyHook pauses for so long in its first period, and for so many times as a save
// takes.
constexpr absl::Duration kEarlyPeriod = absl::Seconds(1);
constexpr int kMinPauseBySave = 20;

void WriteAverages(LearnerView* learner) {
  MetricSink* const sink = learner->deps().metrics.get();
  const std::string& name = learner->deps().name;
  const int64_t envstep = learner->collector_envstep();
  std::vector<std::pair<std::string, std::string>> vars;
  auto averages = learner->monitor()->Averages();
  for (auto& timing : learner->timings().Averages()) averages.push_back(std::move(timing));
  for (const auto& [var, average] : averages) {
    vars.emplace_back(absl::StrCat(var, "_avg"), average ? FormatVar(*average) : "missing");
    if (!average.has_value()) continue;
    if (WritesOverTrainIters(*sink, envstep)) {
      sink->Scalar(absl::StrCat(name, "_iter/", var, "_avg"), learner->train_iter(), *average);
    }
    if (WritesOverEnvSteps(*sink, envstep)) {
      sink->Scalar(absl::StrCat(name, "_step/", var, "_avg"), envstep, *average);
    }
  }
  DING_LOG(INFO) << name << ": train iteration " << learner->train_iter() << "\n"
                 << FormatVarGrid(vars);
}

void WriteDistributions(LearnerView* learner, const LearnStep& step) {
  MetricSink* const sink = learner->deps().metrics.get();
  const std::string& name = learner->deps().name;
  // Over one axis even if averages have both: they are large.
  const bool over_iters = WritesOverTrainIters(*sink, learner->collector_envstep());
  const int64_t at = over_iters ? learner->train_iter() : learner->collector_envstep();
  const std::string prefix = absl::StrCat(name, over_iters ? "_iter/" : "_step/");
  for (const auto& [group, values] : step.grouped_scalars) {
    Scalars(sink, absl::StrCat(prefix, group), at, values);
  }
  for (const auto& [histogram, values] : step.histograms) {
    sink->Histogram(absl::StrCat(prefix, histogram), at, values);
  }
}

}  // namespace

LoadCkptHook::LoadCkptHook(absl::string_view name, int priority, HookPosition position,
                           std::string path)
    : LearnerHook(name, priority, position), path_(std::move(path)) {}

absl::Status LoadCkptHook::Call(LearnerView* learner) {
  if (path_.empty()) return absl::OkStatus();
  DING_RETURN_IF_ERROR(learner->LoadCheckpoint(path_));
  DING_LOG(INFO) << learner->deps().name << ": loaded checkpoint " << path_ << " of iteration "
                 << learner->train_iter();
  return absl::OkStatus();
}

SaveCkptHook::SaveCkptHook(absl::string_view name, int priority, HookPosition position,
                           int64_t freq)
    : LearnerHook(name, priority, position), freq_(freq) {
  DING_CHECK(freq_ >= 1) << "hook '" << this->name() << "' has frequency " << freq_;
}

absl::Status SaveCkptHook::Call(LearnerView* learner) {
  const bool every_iter =
      position() == HookPosition::kAfterIter || position() == HookPosition::kBeforeIter;
  if (learner->group()->rank() != 0 || learner->train_iter() == 0) return absl::OkStatus();
  if (every_iter && learner->train_iter() % freq_ != 0) return absl::OkStatus();
  return learner->SaveCheckpoint();
}

SavePeriodicallyHook::SavePeriodicallyHook(absl::string_view name, int priority,
                                           HookPosition position, absl::Duration period)
    : LearnerHook(name, priority, position), period_(period) {
  DING_CHECK(period_ > absl::ZeroDuration())
      << "hook '" << this->name() << "' has period " << absl::FormatDuration(period_);
}

absl::Status SavePeriodicallyHook::Call(LearnerView* learner) {
  const Clock* const clock = learner->deps().clock;
  if (learner->group()->rank() != 0 || !learner->at_end_of_batch()) return absl::OkStatus();
  if (!since_first_.has_value()) since_first_.emplace(clock);
  if (since_save_.has_value() && since_save_->Elapsed() < CurrentPeriod()) return absl::OkStatus();
  const Timer saving(clock);
  DING_RETURN_IF_ERROR(learner->SaveCheckpoint(kResumeCheckpoint));
  last_save_ = saving.Elapsed();
  since_save_.emplace(clock);
  return absl::OkStatus();
}

absl::Duration SavePeriodicallyHook::CurrentPeriod() const {
  if (since_first_->Elapsed() >= period_) return period_;
  return std::min(period_, std::max(kEarlyPeriod, kMinPauseBySave * last_save_));
}

LogShowHook::LogShowHook(absl::string_view name, int priority, HookPosition position, int64_t freq)
    : LearnerHook(name, priority, position), freq_(freq) {
  DING_CHECK(freq_ >= 1) << "hook '" << this->name() << "' has frequency " << freq_;
}

absl::Status LogShowHook::Call(LearnerView* learner) {
  const LearnStep* const step = learner->current_step();
  if (step == nullptr || !learner->monitors()) return absl::OkStatus();
  for (const auto& [name, value] : step->scalars) learner->monitor()->Add(name, value);
  if (learner->train_iter() % freq_ != 0) return absl::OkStatus();
  WriteAverages(learner);
  WriteDistributions(learner, *step);
  return absl::OkStatus();
}

LogReduceHook::LogReduceHook(absl::string_view name, int priority, HookPosition position)
    : LearnerHook(name, priority, position) {}

absl::Status LogReduceHook::Call(LearnerView* learner) {
  LearnStep* const step = learner->current_step();
  if (step == nullptr || learner->group()->world_size() == 1) return absl::OkStatus();
  std::vector<std::string> names;
  std::vector<double> values;
  for (const auto& [name, value] : step->scalars) {
    if (absl::StartsWith(name, "noreduce_")) continue;
    names.push_back(name);
    values.push_back(value);
  }
  DING_RETURN_IF_ERROR(learner->group()->AllReduceMean(absl::MakeSpan(values)));
  for (size_t i = 0; i < names.size(); ++i) step->scalars.Set(names[i], values[i]);
  return absl::OkStatus();
}

SendHook::SendHook(absl::string_view name, int priority, HookPosition position, int64_t freq,
                   Send send)
    : LearnerHook(name, priority, position), freq_(freq), send_(std::move(send)) {
  DING_CHECK(freq_ >= 1) << "hook '" << this->name() << "' has frequency " << freq_;
  DING_CHECK(position != HookPosition::kBeforeIter)
      << "hook '" << this->name() << "' is at before_iter, where nothing is new";
}

absl::Status SendHook::Call(LearnerView* learner) {
  if (position() == HookPosition::kAfterIter) {
    if (!learner->at_end_of_batch()) return absl::OkStatus();
    if (learner->train_iter() / freq_ == learner->batch_begin_iter() / freq_) {
      return absl::OkStatus();
    }
  }
  return send_(learner);
}

absl::Status SendPolicyHook::Call(LearnerView* learner) {
  return learner->group()->rank() == 0 ? SendHook::Call(learner) : absl::OkStatus();
}

}  // namespace ding
