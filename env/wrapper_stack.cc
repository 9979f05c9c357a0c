#include "ding_worker/env/wrapper_stack.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env_host.h"

namespace ding {
namespace {

std::string ScopeOf(size_t wrapper) { return absl::StrCat("wrapper_", wrapper); }

}  // namespace

absl::StatusOr<WrapperStack> WrapperStack::Create(
    EnvSpec inner, std::vector<std::unique_ptr<EnvWrapper>> wrappers) {
  WrapperStack stack(std::move(inner), std::move(wrappers));
  const EnvSpec* spec = &stack.inner_;
  for (const std::unique_ptr<EnvWrapper>& wrapper : stack.wrappers_) {
    DING_ASSIGN_OR_RETURN(BatchBuilder obs, ZeroedRows(spec->observation, 1));
    DING_ASSIGN_OR_RETURN(BatchBuilder action, ZeroedRows(spec->action, 1));
    stack.own_obs_.push_back(std::move(obs));
    stack.own_actions_.push_back(std::move(action));
    spec = &wrapper->spec();
  }
  for (const BatchBuilder& action : stack.own_actions_) {
    stack.action_rows_.push_back(action.view().row(0));
    stack.actions_.push_back(stack.action_rows_.back());
  }
  stack.actions_.push_back(stack.actions_.back());
  stack.SetRows(std::nullopt, stack.own_obs_[0].view().row(0));  // until the user says where
  return stack;
}

WrapperStack::WrapperStack(EnvSpec inner, std::vector<std::unique_ptr<EnvWrapper>> wrappers)
    : inner_(std::move(inner)),
      wrappers_(std::move(wrappers)),
      asked_(wrappers_.size(), Ask::kNothing) {
  for (int i = 0; i < size(); ++i) {
    if (wrappers_[static_cast<size_t>(i)]->changes().observation) last_change_ = i;
  }
  first_outer_ = static_cast<size_t>(last_change_ + 1);
}

void WrapperStack::SetRows(std::optional<RowRef> inner, const RowRef& outer) {
  obs_.clear();
  obs_.push_back(inner.has_value()       ? *inner
                 : changes_observation() ? own_obs_[0].view().row(0)
                                         : outer);
  for (int i = 0; i < size(); ++i) {
    const auto level = static_cast<size_t>(i);
    if (!wrappers_[level]->changes().observation) {
      obs_.push_back(RowRef(obs_.back()));
    } else {
      obs_.push_back(i == last_change_ ? outer : own_obs_[level + 1].view().row(0));
    }
  }
}

void WrapperStack::GiveUp() {
  for (const std::unique_ptr<EnvWrapper>& wrapper : wrappers_) wrapper->GiveUp();
}

absl::Status WrapperStack::SaveState(StateWriter* writer) const {
  for (size_t i = 0; i < wrappers_.size(); ++i) {
    ScopedStateWriter scoped(writer, ScopeOf(i));
    DING_RETURN_IF_ERROR(wrappers_[i]->SaveState(&scoped));
  }
  return absl::OkStatus();
}

absl::Status WrapperStack::LoadState(StateReader* reader) {
  for (size_t i = 0; i < wrappers_.size(); ++i) {
    ScopedStateReader scoped(reader, ScopeOf(i));
    DING_RETURN_IF_ERROR(wrappers_[i]->LoadState(&scoped));
  }
  return absl::OkStatus();
}

}  // namespace ding
