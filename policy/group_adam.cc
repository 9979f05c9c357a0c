#include "ding_worker/policy/group_adam.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<GroupAdam> GroupAdam::Create(std::vector<ParameterGroup> groups,
                                            const AdamOptions& options, double grad_clip_norm) {
  DING_CHECK(!groups.empty()) << "no parameters";
  GroupAdam made(std::move(groups), grad_clip_norm);
  for (const ParameterGroup& group : made.groups_) {
    const auto size = static_cast<int64_t>(group.parameters.size());
    for (std::vector<Adam>* const adams : {&made.adams_, &made.remembered_adams_}) {
      DING_ASSIGN_OR_RETURN(Adam adam, Adam::Create(options, size));
      adams->push_back(std::move(adam));
    }
    made.gradients_.push_back(group.gradients);
    made.remembered_parameters_.emplace_back(group.parameters.begin(), group.parameters.end());
  }
  return made;
}

GroupAdam::GroupAdam(std::vector<ParameterGroup> groups, double grad_clip_norm)
    : groups_(std::move(groups)), grad_clip_norm_(grad_clip_norm) {}

absl::Status GroupAdam::CheckGradients() const {
  for (const ParameterGroup& group : groups_) {
    const int64_t bad = FindNonFinite(group.gradients);
    if (bad < 0) continue;
    return absl::InternalError(absl::StrCat("gradient ", bad, " of ", group.gradients.size(),
                                            " of '", group.name, "' is ",
                                            group.gradients[static_cast<size_t>(bad)]));
  }
  return absl::OkStatus();
}

absl::Status GroupAdam::Average(GradientReducer* reducer, int64_t rows, const absl::Status& status,
                                absl::Span<float> more) {
  if (reducer == nullptr) return status;
  // The learning rates of a group may differ for a moment, so the rate is averaged too.
  auto rate = static_cast<float>(lr());
  std::vector<absl::Span<float>> values = gradients_;
  values.push_back(absl::MakeSpan(&rate, 1));
  values.push_back(more);
  DING_RETURN_IF_ERROR(AverageGradients(reducer, values, rows, status));
  return set_lr(rate);
}

absl::StatusOr<double> GroupAdam::Step() {
  double norm = 0;
  if (grad_clip_norm_ > 0) {
    // It checks all gradients before it changes one; the error here names the group.
    absl::StatusOr<double> clipped = ClipGradientNorm(gradients_, grad_clip_norm_);
    if (!clipped.ok()) {
      DING_RETURN_IF_ERROR(CheckGradients());
      return clipped.status();
    }
    norm = *clipped;
  } else {
    // A gradient that is not finite makes the norm not finite; huge ones do so, too.
    norm = GradientNorm(gradients_);
    if (!std::isfinite(norm)) DING_RETURN_IF_ERROR(CheckGradients());
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    DING_RETURN_IF_ERROR(adams_[i].Step(groups_[i].gradients, groups_[i].parameters));
  }
  return norm;
}

absl::Status GroupAdam::set_lr(double lr) {
  for (Adam& adam : adams_) DING_RETURN_IF_ERROR(adam.set_lr(lr));
  return absl::OkStatus();
}

void GroupAdam::Remember() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    remembered_adams_[i].CopyFrom(adams_[i]);
    absl::c_copy(groups_[i].parameters, remembered_parameters_[i].begin());
  }
}

void GroupAdam::GoBack() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    adams_[i].CopyFrom(remembered_adams_[i]);
    absl::c_copy(remembered_parameters_[i], groups_[i].parameters.begin());
  }
}

absl::Status GroupAdam::SaveState(StateWriter* writer) const {
  for (size_t i = 0; i < groups_.size(); ++i) {
    ScopedStateWriter scoped(writer, groups_[i].name);
    DING_RETURN_IF_ERROR(adams_[i].SaveState(&scoped));
  }
  return absl::OkStatus();
}

absl::Status GroupAdam::LoadState(StateReader* reader) {
  for (size_t i = 0; i < groups_.size(); ++i) remembered_adams_[i].CopyFrom(adams_[i]);
  for (size_t i = 0; i < groups_.size(); ++i) {
    ScopedStateReader scoped(reader, groups_[i].name);
    const absl::Status status = adams_[i].LoadState(&scoped);
    if (status.ok()) continue;
    for (size_t j = 0; j < groups_.size(); ++j) adams_[j].CopyFrom(remembered_adams_[j]);
    return status;
  }
  return absl::OkStatus();
}

}  // namespace ding
