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
#include "ding_worker/policy/train_state.h"

namespace ding {

ParameterGroup ParametersOf(absl::string_view name, Network* network) {
  return {std::string(name), network->parameter_info(), network->parameters(),
          network->gradients()};
}

absl::StatusOr<GroupAdam> GroupAdam::Create(std::vector<ParameterGroup> groups,
                                            const AdamOptions& options, double grad_clip_norm) {
  DING_CHECK(!groups.empty()) << "no parameters";
  GroupAdam made(std::move(groups), options, grad_clip_norm);
  for (const ParameterGroup& group : made.groups_) {
    DING_ASSIGN_OR_RETURN(Adam adam,
                          Adam::Create(options, static_cast<int64_t>(group.parameters.size())));
    made.adams_.push_back(std::move(adam));
    made.gradients_.push_back(group.gradients);
  }
  return made;
}

GroupAdam::GroupAdam(std::vector<ParameterGroup> groups, const AdamOptions& options,
                     double grad_clip_norm)
    : groups_(std::move(groups)), options_(options), grad_clip_norm_(grad_clip_norm) {}

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

absl::Status GroupAdam::Step(double* norm) {
  if (grad_clip_norm_ > 0) {
    // It checks all gradients before it changes one; the error here names the group.
    const absl::StatusOr<double> clipped = ClipGradientNorm(gradients_, grad_clip_norm_);
    if (!clipped.ok()) {
      DING_RETURN_IF_ERROR(CheckGradients());
      return clipped.status();
    }
    if (norm != nullptr) *norm = *clipped;
  } else if (norm != nullptr) {
    // A gradient that is not finite makes the norm not finite; huge ones do so, too.
    *norm = GradientNorm(gradients_);
    if (!std::isfinite(*norm)) DING_RETURN_IF_ERROR(CheckGradients());
  } else if (groups_.size() > 1) {
    DING_RETURN_IF_ERROR(CheckGradients());
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const absl::Status status = adams_[i].Step(groups_[i].gradients, groups_[i].parameters);
    if (!status.ok()) {
      DING_RETURN_IF_ERROR(CheckGradients());  // a single group, whose Adam has found it
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status GroupAdam::set_lr(double lr) {
  for (Adam& adam : adams_) DING_RETURN_IF_ERROR(adam.set_lr(lr));
  return absl::OkStatus();
}

void GroupAdam::Remember() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const absl::Span<float> parameters = groups_[i].parameters;
    if (i == remembered_adams_.size()) {
      const auto size = static_cast<int64_t>(parameters.size());
      remembered_adams_.push_back(*Adam::Create(options_, size));
      remembered_parameters_.emplace_back(parameters.size());
    }
    remembered_adams_[i].CopyFrom(adams_[i]);
    absl::c_copy(parameters, remembered_parameters_[i].begin());
  }
}

void GroupAdam::GoBack() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    adams_[i].CopyFrom(remembered_adams_[i]);
    absl::c_copy(remembered_parameters_[i], groups_[i].parameters.begin());
  }
}

void GroupAdam::AddTo(TrainState* state, absl::string_view scope) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const std::string& name = groups_[i].name;
    state->AddAdam(scope.empty() ? name : absl::StrCat(scope, "/", name), &adams_[i]);
  }
}

}  // namespace ding
