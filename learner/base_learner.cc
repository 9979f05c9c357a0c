#include "ding_worker/learner/base_learner.h"

#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/checkpoint.h"

namespace ding {
namespace {

// Sets `*entered` until the end of its scope.
class Entered {
 public:
  explicit Entered(bool* entered) : entered_(entered), before_(*entered) { *entered_ = true; }
  ~Entered() { *entered_ = before_; }

 private:
  bool* const entered_;
  const bool before_;
};

constexpr absl::string_view kSaveHook = "save_ckpt_after_run";

absl::StatusOr<std::vector<int64_t>> FirstsOrEmpty(const Batch& data, absl::string_view name) {
  std::vector<int64_t> firsts;
  const std::optional<int> index = data.spec().Find(name);
  if (!index.has_value()) return firsts;
  const FieldSpec& field = data.spec().field(*index);
  if (field.dtype != DType::kInt64 || !field.shape.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("column '", name, "' of the batch is ",
                                                   field.DebugString(), ", expected int64[]"));
  }
  const absl::Span<const int64_t> column = data.column<int64_t>(*index);
  const auto length = static_cast<size_t>(data.sequence_length());
  firsts.reserve(column.size() / length);
  for (size_t row = 0; row < column.size(); row += length) firsts.push_back(column[row]);
  return firsts;
}

absl::Status CheckProgress(int64_t train_iter, int64_t envstep) {
  if (train_iter >= 0 && train_iter <= kMaxSavedCount && envstep >= -1 &&
      envstep <= kMaxSavedCount) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("train_iter is ", train_iter, " and envstep ",
                                                 envstep, ", expected 0 to ", kMaxSavedCount,
                                                 " and -1 to ", kMaxSavedCount));
}

// Returns an error unless `step` has a priority for each row, or each sequence, of `data`.
absl::Status CheckPriorityCount(const Batch& data, const LearnStep& step) {
  const int64_t length = data.sequence_length();
  const int64_t expected = data.rows() / length;
  const auto found = static_cast<int64_t>(step.priority.size());
  if (found == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the policy reports ", found, " priorities, expected ", expected, ": one for each ",
      length == 1 ? std::string("row") : absl::StrCat("sequence of ", length, " rows"),
      " of the batch (LearnStep::priority)"));
}

}  // namespace

absl::Status BaseLearner::CheckParts(const Parts& parts) {
  if (parts.options.train_iterations < 1 || parts.options.monitor_window < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "learner: train_iterations is ", parts.options.train_iterations, " and monitor_window is ",
        parts.options.monitor_window, ", expected both at least 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BaseLearner>> BaseLearner::Create(Parts parts) {
  DING_RETURN_IF_ERROR(CheckParts(parts));
  return std::unique_ptr<BaseLearner>(new BaseLearner(std::move(parts)));
}

absl::StatusOr<std::unique_ptr<BaseLearner>> BaseLearner::Create(const Options& options,
                                                                 LearnMode* policy,
                                                                 LearnerHooks hooks,
                                                                 const ComponentDeps& deps,
                                                                 ProcessGroup* group) {
  return Create(Parts{options, policy, std::move(hooks), deps, group});
}

BaseLearner::BaseLearner(Parts parts)
    : options_(parts.options),
      hooks_(std::move(parts.hooks)),
      deps_(std::move(parts.deps)),
      group_(parts.group == nullptr ? &single_process_ : parts.group),
      monitor_(options_.monitor_window),
      timings_(options_.monitor_window) {
  UsePolicy(parts.policy);
}

void BaseLearner::UsePolicy(LearnMode* policy) {
  policy_ = policy;
  if (policy_ == nullptr) return;
  for (const std::string& name : policy_->monitor_vars()) monitor_.Declare(name);
  if (options_.log_policy) DING_LOG(INFO) << deps_.name << ": " << policy_->info();
}

absl::Status BaseLearner::ResetPolicy(LearnMode* policy) {
  if (policy == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(deps_.name, ": the policy has no learn mode, which a learner needs"));
  }
  if (current_step_ != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(deps_.name, ": ResetPolicy() at iteration ", train_iter_,
                     ", whose steps are of the policy before: expected between two batches"));
  }
  monitor_ = Monitor(options_.monitor_window);
  priority_info_.reset();
  UsePolicy(policy);
  return absl::OkStatus();
}

absl::Status BaseLearner::CallHooks(HookPosition position) {
  const auto index = static_cast<int>(position);
  if (index < 0 || index >= kNumHookPositions) {
    return absl::InvalidArgumentError(
        absl::StrCat(deps_.name, ": there is no hook position ", index));
  }
  const Entered entered(&in_hook_);
  // Iterate by index, because a hook may register another one.
  const std::vector<std::shared_ptr<LearnerHook>>& hooks = hooks_.at(position);
  for (size_t i = 0; i < hooks.size(); ++i) {
    const std::shared_ptr<LearnerHook> hook = hooks[i];
    const absl::Status status = CallUser("the hook", [&] { return hook->Call(outer_); });
    if (!status.ok()) {
      return Annotate(status,
                      absl::StrCat(deps_.name, ": hook '", hook->name(), "' (",
                                   HookPositionName(position), ") at iteration ", train_iter_));
    }
    while (hooks[i] != hook) ++i;  // It may have registered hooks that run before it.
  }
  return absl::OkStatus();
}

void BaseLearner::RegisterHook(std::shared_ptr<LearnerHook> hook) {
  add_learner_hook(&hooks_, std::move(hook));
}

absl::Status BaseLearner::Train(const Batch& data, int64_t envstep, const NamedValues& settings) {
  if (training_) {
    return absl::FailedPreconditionError(
        absl::StrCat(deps_.name, ": Train() is called during Train(), at iteration ", train_iter_,
                     ", as from a hook: expected between two batches"));
  }
  if (policy_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(deps_.name, ": Train() without a policy: expected ResetPolicy() before"));
  }
  const Entered entered(&training_);
  current_batch_ = &data;
  DING_RETURN_IF_ERROR(CallHooks(HookPosition::kBeforeIter));
  const Timer timer(deps_.clock);
  priority_info_.reset();
  const absl::Status status = CallUser("Learn()", [&] { return Learn(data, settings, &steps_); });
  if (!status.ok()) {
    const std::string iteration = absl::StrCat("train iteration ", train_iter_ + 1);
    // Most policies say it themselves.
    const bool said = absl::StrContains(status.message(), absl::StrCat(iteration, ": "));
    return Annotate(status, said ? deps_.name : absl::StrCat(deps_.name, ": ", iteration));
  }
  if (!steps_.empty()) {
    timings_.Add("train_time", timer.Seconds() / static_cast<double>(steps_.size()));
  }
  collector_envstep_ = envstep;
  const absl::Status counted = RememberPriorities(data);
  if (!counted.ok()) {
    return Annotate(counted, absl::StrCat(deps_.name, ": train iteration ", train_iter_ + 1));
  }
  batch_begin_iter_ = train_iter_;
  for (LearnStep& step : steps_) {
    DING_RETURN_IF_ERROR(FinishIteration(&step));
  }
  return absl::OkStatus();
}

absl::Status BaseLearner::Learn(const Batch& data, const NamedValues& settings,
                                std::vector<LearnStep>* steps) {
  return CallUser("the policy", [&] { return policy_->Forward(data, settings, steps); });
}

absl::Status BaseLearner::OnIteration(LearnStep* /*step*/) { return absl::OkStatus(); }

absl::Status BaseLearner::FinishIteration(LearnStep* step) {
  ++train_iter_;
  const absl::Status seen = CallUser("OnIteration()", [&] { return OnIteration(step); });
  if (!seen.ok()) return Annotate(seen, absl::StrCat(deps_.name, ": iteration ", train_iter_));
  current_step_ = step;
  absl::Status status = CallHooks(HookPosition::kAfterIter);
  current_step_ = nullptr;
  return status;
}

absl::Status BaseLearner::RememberPriorities(const Batch& data) {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->priority.empty()) continue;
    DING_RETURN_IF_ERROR(CheckPriorityCount(data, *step));
    DING_ASSIGN_OR_RETURN(std::vector<int64_t> ids, FirstsOrEmpty(data, kColumnReplayUniqueId));
    DING_ASSIGN_OR_RETURN(std::vector<int64_t> places, FirstsOrEmpty(data, kColumnReplayBufferIdx));
    priority_info_ = PriorityInfo{step->priority, std::move(ids), std::move(places)};
    break;
  }
  return absl::OkStatus();
}

absl::Status BaseLearner::Start(const DataSource& next_data, const RecoverFn& recover) {
  if (running_) {
    return absl::FailedPreconditionError(
        absl::StrCat(deps_.name, ": Start() is called during Start(), at iteration ", train_iter_,
                     ", as from a hook or the source of data: expected after it has returned"));
  }
  const Entered entered(&running_);
  done_ = false;
  DING_RETURN_IF_ERROR(CallHooks(HookPosition::kBeforeRun));
  const int64_t end = CheckedSum(train_iter_, options_.train_iterations)
                          .value_or(std::numeric_limits<int64_t>::max());
  while (train_iter_ < end) {
    const Timer timer(deps_.clock);
    const absl::StatusOr<std::optional<TrainData>> next = CallUser("the source", next_data);
    if (!next.ok()) {
      return Annotate(next.status(),
                      absl::StrCat(deps_.name, ": data for train iteration ", train_iter_ + 1));
    }
    if (!next->has_value()) break;
    timings_.Add("data_time", timer.Seconds());
    const TrainData& data = **next;
    const int64_t envstep = data.envstep < 0 ? collector_envstep_ : data.envstep;
    absl::Status trained =
        CallUser("Train()", [&] { return outer_->Train(data.batch, envstep, data.settings); });
    if (!trained.ok() && recover) {
      trained = CallUser("the recover function", [&] { return recover(trained); });
    }
    DING_RETURN_IF_ERROR(trained);
  }
  done_ = true;
  return CallHooks(HookPosition::kAfterRun);
}

absl::Status BaseLearner::SaveCheckpoint(absl::string_view name) {
  if (!in_hook_) {
    for (const std::shared_ptr<LearnerHook>& hook : hooks_.at(HookPosition::kAfterRun)) {
      if (hook->name() != kSaveHook) continue;
      asked_ckpt_.emplace(name);
      const absl::Status called = CallUser("the hook", [&] {
        const Entered entered(&in_hook_);
        return hook->Call(outer_);
      });
      const bool saved = !std::exchange(asked_ckpt_, std::nullopt).has_value();
      if (!called.ok()) {
        return Annotate(called, absl::StrCat(deps_.name, ": hook '", kSaveHook,
                                             "' for checkpoint '", name, "'"));
      }
      if (saved) return absl::OkStatus();
      break;
    }
  }
  const std::optional<std::string> asked = std::exchange(asked_ckpt_, std::nullopt);
  std::string saved_as(name.empty() && asked.has_value() ? *asked : name);
  if (saved_as.empty()) saved_as = absl::StrCat("iteration_", train_iter_);
  if (checkpoint_fn_) {
    const CheckpointFn save = checkpoint_fn_;  // It may set another one.
    return CallUser("the checkpoint function", [&] { return save(saved_as); });
  }
  if (outer_->policy() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        deps_.name, ": SaveCheckpoint() without a policy: expected ResetPolicy() before"));
  }
  return SaveLearnerCheckpoint(*outer_, outer_->CheckpointPath(saved_as));
}

absl::Status BaseLearner::LoadCheckpoint(const std::string& path) {
  return LoadLearnerCheckpoint(path, outer_);
}

std::string BaseLearner::CheckpointPath(absl::string_view name) const {
  const std::string folder =
      deps_.name == "learner" ? std::string("ckpt") : absl::StrCat("ckpt_", deps_.name);
  return JoinPath(JoinPath(deps_.exp_dir, folder), name);
}

absl::Status BaseLearner::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("train_iter", train_iter_));
  DING_RETURN_IF_ERROR(writer->WriteInt("collector_envstep", collector_envstep_));
  ScopedStateWriter monitor(writer, "monitor");
  return monitor_.SaveState(&monitor);
}

absl::Status BaseLearner::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t train_iter, reader->ReadInt("train_iter"));
  DING_ASSIGN_OR_RETURN(const int64_t envstep, reader->ReadInt("collector_envstep"));
  DING_RETURN_IF_ERROR(CheckProgress(train_iter, envstep));
  ScopedStateReader monitor(reader, "monitor");
  DING_RETURN_IF_ERROR(monitor_.LoadState(&monitor));
  return SetProgress(train_iter, envstep);
}

absl::Status BaseLearner::SetProgress(int64_t train_iter, int64_t envstep) {
  DING_RETURN_IF_ERROR(CheckProgress(train_iter, envstep));
  train_iter_ = train_iter;
  collector_envstep_ = envstep;
  return absl::OkStatus();
}

absl::Status BaseLearner::Close() {
  return CallUser("the metric sink", [this] { return deps_.metrics->Flush(); });
}

LearnInfo BaseLearner::learn_info() const { return LearnInfo{train_iter_, priority_info_, done_}; }

}  // namespace ding
