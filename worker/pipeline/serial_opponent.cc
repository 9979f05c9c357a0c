#include "ding_worker/worker/pipeline/serial_opponent.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/learner/hook.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/setup/setup_problems.h"

namespace ding {
namespace {

constexpr char kName[] = "opponent";
// The names of its checkpoints and components begin with this.
constexpr char kPrefix[] = "opponent_";

std::string NameOf(absl::string_view part) { return absl::StrCat(kPrefix, part); }

// The learner's hooks are for the run and its policy.
void ClearHooks(ExperimentConfig* config) {
  LearnerHooksConfig& hooks =
      *config->mutable_policy()->mutable_learn()->mutable_learner()->mutable_hook();
  hooks.clear_load_ckpt_before_run();
  hooks.set_save_ckpt_after_iter(0);
  hooks.set_save_ckpt_after_run(false);
  hooks.set_save_ckpt_seconds(0);
  hooks.clear_hook();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SerialOpponent>> SerialOpponent::Create(
    const ExperimentConfig& config, const EnvSpec& game, const CollectAttributes& policy,
    const ComponentDeps& deps) {
  DING_RETURN_IF_ERROR(CheckOpponent(config, game));
  DING_ASSIGN_OR_RETURN(ExperimentConfig own, OpponentConfig(config));
  ClearHooks(&own);
  auto opponent = absl::WrapUnique(new SerialOpponent(std::move(own), PlayerSpec(game, 1)));
  const bool learns = config.opponent().learns();
  const PolicyModes modes = learns ? PolicyModes() : EvalModeOnly();
  DING_ASSIGN_OR_RETURN(opponent->policy_, MakeOpponentPolicy(config, opponent->player_, modes));
  if (learns) {
    DING_RETURN_IF_ERROR(Annotate(opponent->CreateLearner(policy, deps), kName));
    return opponent;
  }
  DING_ASSIGN_OR_RETURN(opponent->collecting_policy_,
                        MakeOpponentPolicy(config, opponent->player_, modes));
  opponent->without_exploration_ =
      std::make_unique<EvalCollectMode>(opponent->collecting_policy_->eval_mode());
  return opponent;
}

absl::Status SerialOpponent::CreateLearner(const CollectAttributes& policy, ComponentDeps deps) {
  DING_RETURN_IF_ERROR(CheckOpponentLearns(policy_.get(), config_, policy.on_policy));
  if (config_.policy().collect().overlap()) {
    return absl::InvalidArgumentError(
        "policy.collect.overlap is true, but opponent.learns is, too: expected false in one of "
        "them");
  }
  deps.seed = config_.seed();
  if (!policy.on_policy) {
    deps.name = NameOf("replay_buffer");
    DING_ASSIGN_OR_RETURN(buffer_, create_buffer(config_.policy().other().replay_buffer(), deps));
    DING_RETURN_IF_ERROR(ProblemsToStatus(
        FindSequenceProblems(config_, policy_->learn_mode()->attributes(),
                             buffer_->draws_sequences(), player_.max_episode_steps),
        kName));
  }
  deps.name = NameOf("learner");
  DING_ASSIGN_OR_RETURN(
      learner_, create_learner(config_.policy().learn().learner(), policy_->learn_mode(), deps));
  return absl::OkStatus();
}

SelfPlayCollector::Opponent SerialOpponent::seat() {
  return {learns() ? policy_->collect_mode() : without_exploration_.get(), learns()};
}

void SerialOpponent::UseCollector(SelfPlayCollector* collector) {
  collector_ = collector;
  if (!learns()) return;
  commander_ =
      std::make_unique<BaseSerialCommander>(learner_.get(), collector, policy_->command_mode());
}

absl::Status SerialOpponent::Begin() {
  if (!learns()) return absl::OkStatus();
  return CallUser("the opponent's learner",
                  [this] { return learner_->CallHooks(HookPosition::kBeforeRun); });
}

void SerialOpponent::PrepareCollect() {
  if (learns()) collector_->set_opponent_settings(commander_->Step());
}

absl::Status SerialOpponent::Learn(const std::function<bool()>& may_train) {
  for (const SegmentBatch& rows : collector_->TakeOpponentData()) {
    if (buffer_ == nullptr) {
      DING_RETURN_IF_ERROR(Train(rows.rows));
      continue;
    }
    const absl::Status pushed = buffer_->Push(rows, collector_->envstep());
    // The rate control of the buffer admits no more rows for now.
    if (!absl::IsUnavailable(pushed)) DING_RETURN_IF_ERROR(Annotate(pushed, kName));
    DING_LOG_IF(WARNING, !pushed.ok()) << kName << ": rows are dropped: " << pushed.message();
  }
  if (buffer_ == nullptr) return absl::OkStatus();
  const LearnSection& learn = config_.policy().learn();
  for (int64_t i = 0; i < learn.update_per_collect() && may_train(); ++i) {
    const absl::StatusOr<Batch> batch = buffer_->Sample(learn.batch_size(), learner_->train_iter());
    if (absl::IsFailedPrecondition(batch.status())) return absl::OkStatus();  // too few rows yet
    DING_RETURN_IF_ERROR(Annotate(batch.status(), kName));
    DING_RETURN_IF_ERROR(Train(*batch));
  }
  return absl::OkStatus();
}

absl::Status SerialOpponent::Train(const Batch& batch) {
  const int64_t env_step = collector_->envstep();
  DING_RETURN_IF_ERROR(CallUser("the opponent's learner", [&] {
    return learner_->Train(batch, env_step, commander_->LearnSettings(env_step));
  }));
  if (buffer_ == nullptr || !config_.policy().priority()) return absl::OkStatus();
  const LearnInfo info = learner_->learn_info();
  return info.priority_info ? buffer_->Update(*info.priority_info) : absl::OkStatus();
}

absl::Status SerialOpponent::SaveCheckpoint(absl::string_view name, RunCheckpoints* checkpoints) {
  if (!learns()) return absl::OkStatus();
  CheckpointInfo info = LearnerCheckpointInfo(*learner_);
  DescribeRun(config_, player_, &info);
  DING_ASSIGN_OR_RETURN(std::vector<CheckpointComponent> components,
                        CopyComponents(LearnerComponents(*learner_)));
  return checkpoints->Save(NameOf(name), std::move(info), std::move(components));
}

std::vector<CheckpointComponent> SerialOpponent::Components() {
  if (!learns()) return {};
  std::vector<CheckpointComponent> components = LearnerComponents(*learner_);
  for (CheckpointComponent& component : components) component.name = NameOf(component.name);
  components.push_back(ComponentOf(NameOf("collect_policy"), policy_->collect_mode()));
  return components;
}

absl::Status SerialOpponent::LoadComponents(const CheckpointReader& checkpoint) {
  if (!learns()) return absl::OkStatus();
  LearnMode* const policy = policy_->learn_mode();
  DING_RETURN_IF_ERROR(
      LoadComponent(checkpoint, NameOf(kModelComponent),
                    [policy](StateReader* reader) { return policy->LoadModel(reader); }));
  DING_RETURN_IF_ERROR(
      LoadComponent(checkpoint, NameOf("train_state"),
                    [policy](StateReader* reader) { return policy->LoadTrainState(reader); }));
  DING_RETURN_IF_ERROR(LoadComponent(checkpoint, NameOf("learner"), learner_.get()));
  return LoadComponent(checkpoint, NameOf("collect_policy"), policy_->collect_mode());
}

}  // namespace ding
