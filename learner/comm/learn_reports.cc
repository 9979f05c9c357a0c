#include "ding_worker/learner/comm/learn_reports.h"

#include <cstddef>
#include <utility>

#include "absl/time/time.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

// With long iterations a report is due before there are as many as it is for.
constexpr absl::Duration kReportPeriod = absl::Seconds(1);

void AddPriorities(const PriorityInfo& priorities, LearnerInfo* info) {
  for (size_t i = 0; i < priorities.priority.size(); ++i) {
    info->add_priority(priorities.priority[i]);
    info->add_replay_unique_id(priorities.replay_unique_id[i]);
    info->add_replay_buffer_idx(priorities.replay_buffer_idx[i]);
  }
}

}  // namespace

LearnReports::LearnReports(int64_t train_iter, int64_t send_info_freq, bool grouped)
    : send_info_freq_(send_info_freq), grouped_(grouped), reported_iter_(train_iter) {}

LearnerInfo LearnReports::Stall(int64_t train_iter, const std::string& what) {
  told_stall_ = true;
  LearnerInfo info;
  info.set_learner_step(train_iter);
  info.set_stalled(what);
  return info;
}

void LearnReports::Restart(int64_t train_iter) {
  info_.Clear();
  reported_iter_ = train_iter;
}

std::optional<LearnerInfo> LearnReports::Add(LearnerView* learner) {
  const LearnInfo info = learner->learn_info();
  if (info.priority_info.has_value() && !info.learner_done) {
    AddPriorities(*info.priority_info, &info_);
  }
  const bool early = !grouped_ && (told_stall_ || since_report_.Elapsed() >= kReportPeriod);
  const std::string& stop_request = learner->run_signals()->stop_request();
  const bool wants_end = !stop_request.empty() && !told_stop_request_;
  const bool due = early || (wants_end && !grouped_) ||
                   learner->train_iter() >= reported_iter_ + send_info_freq_;
  if (!due && !info.learner_done) return std::nullopt;
  info_.set_learner_step(info.learner_step);
  info_.set_learner_done(info.learner_done);
  if (learner->current_step() != nullptr) {
    ToSettings(learner->current_step()->scalars, info_.mutable_value());
  }
  NamedValues shown;
  for (const auto& [label, name] : learner->policy()->progress_vars()) {
    if (const std::optional<double> average = learner->monitor()->Average(name)) {
      shown.Set(label, *average);
    }
  }
  ToSettings(shown, info_.mutable_shown());
  if (!grouped_) info_.set_stalled(stalled_);
  if (wants_end) info_.set_stop_request(stop_request);
  told_stop_request_ = told_stop_request_ || wants_end;
  reported_iter_ = info.learner_step;
  told_stall_ = false;
  since_report_ = Timer(Clock::Real());
  return std::exchange(info_, LearnerInfo());
}

}  // namespace ding
