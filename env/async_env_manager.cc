#include "ding_worker/env/async_env_manager.h"

#include <algorithm>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/env/env_host.h"

namespace ding {

absl::StatusOr<std::unique_ptr<AsyncEnvManager>> AsyncEnvManager::Create(
    Options options, std::unique_ptr<EnvWorkers> workers) {
  DING_RETURN_IF_ERROR(Check(options, workers->env_num(), {}));
  DING_ASSIGN_OR_RETURN(Blocks blocks, Blocks::Create(workers->spec(), workers->env_num()));
  return absl::WrapUnique(
      new AsyncEnvManager(std::move(options), std::move(blocks), std::move(workers)));
}

absl::Status AsyncEnvManager::Check(const Options& options, int env_num,
                                    std::vector<std::string> problems) {
  if (options.wait_num < 0 || options.wait_num > env_num) {
    problems.push_back(absl::StrCat("wait_num is ", options.wait_num, ", expected 0 (all) to ",
                                    env_num, ", the number of envs"));
  }
  return CheckOptions(options, std::move(problems));
}

AsyncEnvManager::AsyncEnvManager(Options options, Blocks blocks,
                                 std::unique_ptr<EnvWorkers> workers)
    : EnvManagerCore(options, workers->spec(), workers->rows(), std::move(blocks)),
      wait_num_(options.wait_num),
      workers_(std::move(workers)),
      awaited_(static_cast<size_t>(env_num()), 0),
      starts_(static_cast<size_t>(env_num())) {
  answered_.reserve(awaited_.size());
  stepped_.reserve(awaited_.size());
}

absl::Status AsyncEnvManager::StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions,
                                       absl::Span<const int>* answered) {
  // `actions` may have further columns; the env gets its own only. A step of no envs may come
  // without columns.
  const ColumnsView own_actions =
      env_ids.empty() ? ColumnsView() : actions.Fields(env_spec().action.get(), 0);
  if (env_ids == all_ids()) {
    CopyRows(own_actions, workers_->actions(), 0);
  } else {
    for (size_t i = 0; i < env_ids.size(); ++i) {
      CopyRows(own_actions.Slice(static_cast<int64_t>(i), 1), workers_->actions(), env_ids[i]);
    }
  }
  for (const int env_id : env_ids) {
    NoteAsked(env_id, EnvState::kRun);
    workers_->AskStep(env_id);
  }
  busy_ += static_cast<int>(env_ids.size());
  const int want = waits_for_all() ? busy_ : std::min(busy_, wait_num_);
  const absl::Status waited =
      workers_->Wait(std::max(0, want - static_cast<int>(answered_.size())), &answered_);
  DING_RETURN_IF_ERROR(TakeResets());
  if (!waited.ok()) {
    // The caller gets no Timesteps, so the other steps are lost.
    for (const int env_id : stepped_) NoteLost(env_id);
    return waited;
  }
  // The order of the request if all envs have answered, else by increasing id.
  if (stepped_.size() == env_ids.size() && waits_for_all()) {
    *answered = env_ids;
  } else {
    std::sort(stepped_.begin(), stepped_.end());
    *answered = stepped_;
  }
  return AccountSteps(*answered);
}

absl::Status AsyncEnvManager::TakeResets() {
  stepped_.clear();
  absl::Status failure;
  std::vector<int> again;
  for (const int env_id : answered_) {
    NoteAnswered(env_id);
    const EnvAnswer& answer = workers_->answer(env_id);
    if (answer.reset && SkipsEpisode(env_id, answer.status)) {
      again.push_back(env_id);
    } else if (answer.reset) {
      failure.Update(Began(env_id, starts_[static_cast<size_t>(env_id)], answer.status));
    } else {
      stepped_.push_back(env_id);
    }
  }
  busy_ -= static_cast<int>(answered_.size());
  answered_.clear();
  AskResets(again);
  if (!failure.ok()) Close();
  return failure;
}

absl::Status AsyncEnvManager::AccountSteps(absl::Span<const int> env_ids) {
  for (size_t i = 0; i < env_ids.size(); ++i) {
    EnvAnswer& answer = workers_->answer(env_ids[i]);
    if (ABSL_PREDICT_FALSE(!answer.status.ok()) && DropsStep(answer.status)) {
      ClearStepResult(env_spec(), &answer.result);
      answer.result.abnormal = true;
      answer.void_cause = std::exchange(answer.status, absl::OkStatus());
    }
    if (!answer.status.ok()) {
      return FailStep(env_ids, i, env_ids.size(), StepFailed(env_ids[i], answer.status));
    }
    if (AccountReward(i, env_ids[i], answer.result)) continue;
    const absl::Status status = AccountRest(i, env_ids[i], answer.void_cause, &answer.result);
    if (!status.ok()) return FailStep(env_ids, i, env_ids.size(), status);
  }
  return absl::OkStatus();
}

void AsyncEnvManager::AskResets(absl::Span<const int> env_ids) {
  for (const int env_id : env_ids) {
    EpisodeStart& start = starts_[static_cast<size_t>(env_id)];
    start = NextEpisode(env_id);
    NoteAsked(env_id, EnvState::kReset);
    workers_->AskReset(env_id, start);
  }
  busy_ += static_cast<int>(env_ids.size());
}

absl::Status AsyncEnvManager::ResetEnvs(absl::Span<const int> env_ids) {
  AskResets(env_ids);
  DING_RETURN_IF_ERROR(WaitFor(env_ids));
  for (const int env_id : env_ids) {
    while (SkipsEpisode(env_id, workers_->answer(env_id).status)) {
      AskResets({env_id});
      DING_RETURN_IF_ERROR(WaitFor({env_id}));
    }
    DING_RETURN_IF_ERROR(
        Began(env_id, starts_[static_cast<size_t>(env_id)], workers_->answer(env_id).status));
    // A caller that waits for all envs would wait for the next reset anyway; others go on
    // meanwhile.
    if (!waits_for_all() || !BeginsNextEpisode(env_id) || has_on_episode_end()) continue;
    workers_->PrepareReset(env_id, PeekNextEpisode(env_id));
  }
  return absl::OkStatus();
}

absl::Status AsyncEnvManager::BeginResets(absl::Span<const int> env_ids) {
  if (waits_for_all()) return ResetEnvs(env_ids);
  AskResets(env_ids);
  // Makes the workers begin without waiting for an answer.
  return workers_->Wait(0, &answered_);
}

absl::Status AsyncEnvManager::Settle(absl::Span<const int> env_ids) {
  return busy_ == 0 ? absl::OkStatus() : WaitFor(env_ids);
}

absl::Status AsyncEnvManager::WaitFor(absl::Span<const int> env_ids) {
  int missing = 0;
  for (const int env_id : env_ids) {
    if (!asked(env_id)) continue;
    awaited_[static_cast<size_t>(env_id)] = 1;
    ++missing;
  }
  absl::Status status;
  const auto take = [&](int env_id) {
    if (awaited_[static_cast<size_t>(env_id)] == 0) return false;
    awaited_[static_cast<size_t>(env_id)] = 0;
    NoteAnswered(env_id);
    --missing;
    --busy_;
    return true;
  };
  while (true) {
    answered_.erase(std::remove_if(answered_.begin(), answered_.end(), take), answered_.end());
    if (missing == 0 || !status.ok()) break;
    status = workers_->Wait(missing, &answered_);
  }
  for (const int env_id : env_ids) awaited_[static_cast<size_t>(env_id)] = 0;
  return missing == 0 ? absl::OkStatus() : status;
}

absl::StatusOr<Image> AsyncEnvManager::RenderEnv(int env_id) { return workers_->Render(env_id); }

absl::Status AsyncEnvManager::SaveEnv(int env_id, StateWriter* writer) const {
  return workers_->SaveState(env_id, writer);
}

absl::Status AsyncEnvManager::LoadEnv(int env_id, StateReader* reader) {
  return workers_->LoadState(env_id, reader);
}

void AsyncEnvManager::EndEnvs() {
  workers_->End();
  answered_.clear();
  busy_ = 0;
}

}  // namespace ding
