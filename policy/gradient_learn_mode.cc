#include "ding_worker/policy/gradient_learn_mode.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Status LossError(absl::string_view name, double loss, absl::Span<const float> td_error) {
  const int64_t row = FindNonFinite(td_error);
  return absl::InternalError(
      absl::StrCat(name, " is ", loss,
                   row < 0 ? std::string()
                           : absl::StrCat("; the first non-finite td error is that of row ", row)));
}

GradientLearnMode::GradientLearnMode(LearnDescription description, GroupAdam adam)
    : description_(std::move(description)) {
  groups_.push_back({std::move(adam)});
}

absl::Status GradientLearnMode::Forward(const Batch& data, const NamedValues& settings,
                                        std::vector<LearnStep>* steps) {
  steps->resize(1);
  LearnStep* const step = &steps->front();
  const absl::Status status = Update(data, settings, step);
  if (!status.ok()) {
    return Annotate(
        status, absl::StrCat(description_.algorithm,
                             saves_train_iter_ ? absl::StrCat(", train iteration ", train_iter_ + 1)
                                               : ", learn"));
  }
  ++train_iter_;
  AfterStep(step);
  return absl::OkStatus();
}

// The rates are read after the gradients are there: a failed batch leaves them.
absl::Status GradientLearnMode::Update(const Batch& data, const NamedValues& settings,
                                       LearnStep* step) {
  BeginReport(step);
  const absl::StatusOr<int64_t> rows = ComputeGradients(data, settings, step);
  absl::Status status = rows.status();
  if (status.ok()) status = ReadRates(settings);
  DING_RETURN_IF_ERROR(Average(rows.value_or(0), status));
  return Step(step);
}

void GradientLearnMode::BeginReport(LearnStep* step) const {
  step->scalars.Clear();
  step->priority.clear();
  step->scalars.Set("cur_lr", groups_.front().adam.lr());  // the first one of a report
}

absl::Status GradientLearnMode::ReadRates(const NamedValues& settings) {
  for (TrainedGroup& group : groups_) {
    const std::optional<double> rate = settings.Get(group.rate_setting);
    if (!rate.has_value()) continue;
    DING_RETURN_IF_ERROR(Annotate(group.adam.set_lr(*rate), group.rate_setting));
  }
  return absl::OkStatus();
}

bool GradientLearnMode::IsDue(size_t group) const {
  return groups_[group].learned && (train_iter_ + 1) % groups_[group].period == 0;
}

absl::Status GradientLearnMode::Average(int64_t rows, const absl::Status& status,
                                        absl::Span<float> more) {
  if (description_.reducer == nullptr) return status;
  averaged_.clear();
  rates_.clear();
  for (size_t i = 0; i < groups_.size(); ++i) {
    const absl::Span<const absl::Span<float>> gradients = groups_[i].adam.gradients();
    if (IsDue(i)) averaged_.insert(averaged_.end(), gradients.begin(), gradients.end());
    if (groups_[i].learned) rates_.push_back(static_cast<float>(groups_[i].adam.lr()));
  }
  if (description_.averages_rates) averaged_.push_back(absl::MakeSpan(rates_));
  averaged_.push_back(more);
  DING_RETURN_IF_ERROR(description_.reducer->Average(averaged_, rows, status));
  if (!description_.averages_rates) return absl::OkStatus();
  size_t at = 0;
  for (TrainedGroup& group : groups_) {
    if (group.learned) DING_RETURN_IF_ERROR(group.adam.set_lr(rates_[at++]));
  }
  return absl::OkStatus();
}

absl::Status GradientLearnMode::Step(LearnStep* step) {
  // A group checks its own gradients before it steps; all groups must be fine before the first one does.
  for (size_t i = 0; groups_.size() > 1 && i < groups_.size(); ++i) {
    if (IsDue(i)) DING_RETURN_IF_ERROR(groups_[i].adam.CheckGradients());
  }
  const bool measures = (train_iter_ + 1) % description_.norm_period == 0;
  double norm = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!IsDue(i)) continue;
    DING_RETURN_IF_ERROR(groups_[i].adam.Step(i == 0 && measures ? &norm : nullptr));
  }
  step->scalars.Set("cur_lr", groups_.front().adam.lr());
  if (measures) step->scalars.Set("grad_norm", norm);
  return absl::OkStatus();
}

void GradientLearnMode::AddTrainIter() {
  state_.AddCount("train_iter", &train_iter_);
  saves_train_iter_ = true;
}

}  // namespace ding
