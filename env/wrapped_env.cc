#include "ding_worker/env/wrapped_env.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_wrapper.h"

namespace ding {
namespace {

using Ask = EnvWrapper::Ask;

constexpr char kInner[] = "env";

std::string ScopeOf(size_t wrapper) { return absl::StrCat("wrapper_", wrapper); }

class WrappedEnv : public Env {
 public:
  WrappedEnv(std::unique_ptr<Env> env, WrapperStack stack)
      : env_(std::move(env)), stack_(std::move(stack)) {}

  const EnvSpec& spec() const override { return stack_.spec(); }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    stack_.SetOuterRow(obs);
    StepResult result;  // of steps that are part of a reset
    ClearStepResult(env_->spec(), &result);
    return Run(stack_.BeginReset(start), &result);
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    stack_.SetOuterRow(obs);
    return Run(stack_.BeginStep(action), result);
  }

  absl::Status SaveState(StateWriter* writer) const override {
    ScopedStateWriter inner(writer, kInner);
    DING_RETURN_IF_ERROR(env_->SaveState(&inner));
    return stack_.SaveState(writer);
  }
  absl::Status LoadState(StateReader* reader) override {
    ScopedStateReader inner(reader, kInner);
    DING_RETURN_IF_ERROR(env_->LoadState(&inner));
    return stack_.LoadState(reader);
  }

  absl::StatusOr<Image> Render() override { return env_->Render(); }

 private:
  absl::Status Run(Ask ask, StepResult* result) {
    const absl::Status status = TryRun(ask, result);
    if (!status.ok() || result->abnormal) stack_.GiveUp();
    return status;
  }

  // `result` has its defaults.
  absl::Status TryRun(Ask ask, StepResult* result) {
    for (; ask != Ask::kNothing; ClearBefore(ask, result)) {
      DING_RETURN_IF_ERROR(ask == Ask::kReset
                               ? env_->Reset(stack_.start(), stack_.inner_obs())
                               : env_->Step(stack_.inner_action(), stack_.inner_obs(), result));
      if (result->abnormal) return absl::OkStatus();
      // Before a wrapper adds such values to what it keeps, or hides them.
      DING_RETURN_IF_ERROR(CheckFiniteStep(stack_.inner_obs(), *result));
      DING_ASSIGN_OR_RETURN(ask, stack_.Answer(result));
    }
    return absl::OkStatus();
  }

  // Clears `result` before a further call of the env.
  void ClearBefore(Ask ask, StepResult* result) const {
    if (ask != Ask::kNothing) ClearStepResult(env_->spec(), result);
  }

  const std::unique_ptr<Env> env_;
  WrapperStack stack_;
};

class WrappedWorkers : public EnvWorkers {
 public:
  WrappedWorkers(std::unique_ptr<EnvWorkers> workers, std::vector<WrapperStack> stacks,
                 std::optional<BatchBuilder> rows, BatchBuilder actions)
      : workers_(std::move(workers)),
        rows_(std::move(rows)),
        actions_(std::move(actions)),
        resetting_(stacks.size(), 0),
        stacks_(std::move(stacks)) {
    for (int i = 0; i < env_num(); ++i) {
      stack(i).SetRows(workers_->rows().row(i), this->rows().row(i));
    }
    ready_.reserve(stacks_.size());
    inner_answered_.reserve(stacks_.size());
  }

  int env_num() const override { return workers_->env_num(); }
  const EnvSpec& spec() const override { return stacks_.front().spec(); }
  MutableColumnsView rows() const override {
    return rows_.has_value() ? rows_->view() : workers_->rows();
  }
  MutableColumnsView actions() const override { return actions_.view(); }

  void AskStep(int env_id) override {
    ++busy_;
    resetting_[static_cast<size_t>(env_id)] = 0;
    PassOn(env_id, stack(env_id).BeginStep(ColumnsView(actions()).row(env_id)));
  }
  void AskReset(int env_id, const EpisodeStart& start) override {
    ++busy_;
    resetting_[static_cast<size_t>(env_id)] = 1;
    PassOn(env_id, stack(env_id).BeginReset(start));
  }

  // The wrappers begin their episode in AskReset(), and ask for a reset with the same start then,
  // or for none.
  void PrepareReset(int env_id, const EpisodeStart& start) override {
    workers_->PrepareReset(env_id, start);
  }

  absl::Status Wait(int at_least, std::vector<int>* answered) override {
    const int wanted = std::min(at_least, busy_);
    do {
      inner_answered_.clear();
      const int missing = std::max(0, wanted - static_cast<int>(ready_.size()));
      DING_RETURN_IF_ERROR(workers_->Wait(missing, &inner_answered_));
      for (const int env_id : inner_answered_) Take(env_id);
    } while (static_cast<int>(ready_.size()) < wanted);
    answered->insert(answered->end(), ready_.begin(), ready_.end());
    busy_ -= static_cast<int>(ready_.size());
    ready_.clear();
    return absl::OkStatus();
  }
  EnvAnswer& answer(int env_id) override {
    EnvAnswer& answer = workers_->answer(env_id);
    answer.reset = resetting_[static_cast<size_t>(env_id)] != 0;
    return answer;
  }

  absl::StatusOr<Image> Render(int env_id) override { return workers_->Render(env_id); }
  absl::Status SaveState(int env_id, StateWriter* writer) override {
    ScopedStateWriter inner(writer, kInner);
    DING_RETURN_IF_ERROR(workers_->SaveState(env_id, &inner));
    return stack(env_id).SaveState(writer);
  }
  absl::Status LoadState(int env_id, StateReader* reader) override {
    ScopedStateReader inner(reader, kInner);
    DING_RETURN_IF_ERROR(workers_->LoadState(env_id, &inner));
    return stack(env_id).LoadState(reader);
  }

  void End() override {
    workers_->End();
    for (WrapperStack& stack : stacks_) stack.GiveUp();
    ready_.clear();
    busy_ = 0;
  }

 private:
  WrapperStack& stack(int env_id) { return stacks_[static_cast<size_t>(env_id)]; }

  void PassOn(int env_id, Ask ask) {
    if (ask == Ask::kReset) {
      workers_->AskReset(env_id, stack(env_id).start());
      return;
    }
    CopyRow(stack(env_id).inner_action(), workers_->actions().row(env_id));
    workers_->AskStep(env_id);
  }

  // An env has answered: either the wrapped env has, too, or it goes on.
  void Take(int env_id) {
    EnvAnswer& answer = workers_->answer(env_id);
    const bool was_reset = answer.reset;
    if (answer.status.ok() && (was_reset || !answer.result.abnormal)) {
      const RowRef row = workers_->rows().row(env_id);
      answer.status = was_reset ? CheckFiniteRow(row) : CheckFiniteStep(row, answer.result);
    }
    if (!answer.status.ok() || (!was_reset && answer.result.abnormal)) {
      // A step that is part of a reset has no result; the reset failed.
      if (answer.status.ok() && resetting_[static_cast<size_t>(env_id)] != 0) {
        answer.status = answer.void_cause.ok()
                            ? absl::InternalError("a step that is part of the reset was abnormal")
                            : answer.void_cause;
      }
      stack(env_id).GiveUp();
      ready_.push_back(env_id);
      return;
    }
    const absl::StatusOr<Ask> ask = stack(env_id).Answer(&answer.result);
    if (ask.ok() && *ask != Ask::kNothing) {
      PassOn(env_id, *ask);
      return;
    }
    answer.status = ask.status();
    if (!ask.ok()) stack(env_id).GiveUp();
    ready_.push_back(env_id);
  }

  const std::unique_ptr<EnvWorkers> workers_;
  const std::optional<BatchBuilder> rows_;  // unless observations stay where they are
  const BatchBuilder actions_;
  std::vector<uint8_t> resetting_;  // whether the wrapped env was asked for a reset, else a step
  std::vector<WrapperStack> stacks_;
  int busy_ = 0;
  std::vector<int> ready_;  // wrapped envs that have answered
  std::vector<int> inner_answered_;
};

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

absl::StatusOr<std::unique_ptr<Env>> MakeWrappedEnv(std::unique_ptr<Env> env,
                                                    const WrapperStackFactory& make_stack) {
  DING_RETURN_IF_ERROR(ValidateEnvSpec(env->spec()));
  DING_ASSIGN_OR_RETURN(WrapperStack stack, make_stack(env->spec()));
  return std::make_unique<WrappedEnv>(std::move(env), std::move(stack));
}

absl::StatusOr<std::unique_ptr<EnvWorkers>> WrapWorkers(std::unique_ptr<EnvWorkers> workers,
                                                        const WrapperStackFactory& make_stack) {
  std::vector<WrapperStack> stacks;
  for (int i = 0; i < workers->env_num(); ++i) {
    DING_ASSIGN_OR_RETURN(WrapperStack stack, make_stack(workers->spec()));
    stacks.push_back(std::move(stack));
  }
  const EnvSpec& spec = stacks.front().spec();
  std::optional<BatchBuilder> rows;
  if (stacks.front().changes_observation()) {
    DING_ASSIGN_OR_RETURN(BatchBuilder block, ZeroedRows(spec.observation, workers->env_num()));
    rows.emplace(std::move(block));
  }
  DING_ASSIGN_OR_RETURN(BatchBuilder actions, ZeroedRows(spec.action, workers->env_num()));
  return std::make_unique<WrappedWorkers>(std::move(workers), std::move(stacks), std::move(rows),
                                          std::move(actions));
}

}  // namespace ding
