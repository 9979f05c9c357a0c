#include "ding_worker/worker/tasks/configured_collector.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/collector/parallel/random_start.h"
#include "ding_worker/collector/parallel_registry.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"
#include "ding_worker/worker/tasks/on_policy_rounds.h"
#include "ding_worker/worker/tasks/parallel_collect.h"
#include "ding_worker/worker/tasks/task_config.h"
#include "ding_worker/worker/tasks/task_envs.h"

namespace ding {
namespace {

// In the folder of the run: what an evaluation leaves to the next one.
constexpr char kEvaluatorFolder[] = "evaluator";
constexpr char kEvaluatorKind[] = "ding_worker/evaluator";  // of a checkpoint
constexpr char kEvaluatorComponent[] = "evaluator";
constexpr char kSeesOpponent[] = "all machines that collect or evaluate must see the opponent";

// Between two attempts to read the policy of an opponent that learns.
constexpr absl::Duration kLoadWait = absl::Seconds(1);

// All envs of an evaluation play the same number of episodes.
int64_t EvaluationEpisodesPerEnv(const EnvSection& env, bool confirms) {
  const int64_t envs = env.evaluator_env_num();
  const int64_t episodes = confirms ? env.n_confirm_episode() : env.n_evaluator_episode();
  return std::max(confirms ? 1 : env.evaluator_episode_num(), (episodes + envs - 1) / envs);
}

// All evaluations have the same episodes, while no two confirmations and no two collecting tasks
// do.
uint64_t EnvSeed(const ExperimentConfig& config, const CollectorTask& task) {
  if (task.has_confirmation()) {
    return Rng::DeriveSeed(config.seed(), "confirmation_env",
                           static_cast<uint64_t>(task.confirmation()));
  }
  return task.eval_flag() ? Rng::DeriveSeed(config.seed(), "evaluator_env")
                          : Rng::DeriveSeed(config.seed(), "collector_env",
                                            static_cast<uint64_t>(task.number()));
}

absl::StatusOr<TensorMap> TensorsOf(const CollectorTask& task) {
  TensorMap tensors;
  if (!task.has_collect_tensors()) return tensors;
  DING_ASSIGN_OR_RETURN(const std::shared_ptr<StateReader> reader,
                        DecodeState(task.collect_tensors(), "collect_tensors of the task"));
  for (const std::string& name : reader->Names()) {
    DING_ASSIGN_OR_RETURN(Tensor tensor, reader->ReadTensor(name));
    tensors.Set(name, std::move(tensor));
  }
  return tensors;
}

// The policy of a player that only plays in a task: with settings of its own and without tensors,
// for the task's are those of the policy that learns in it.
class WithSettings : public CollectMode {
 public:
  WithSettings(CollectMode* policy, NamedValues settings)
      : policy_(*policy), settings_(std::move(settings)) {}

  const SpecPtr& output_spec() const override { return policy_.output_spec(); }
  CollectAttributes attributes() const override { return policy_.attributes(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    return policy_.Forward(obs, env_ids, settings_, out);
  }
  absl::Status ForwardWith(const ColumnsView& obs, absl::Span<const int> env_ids,
                           const NamedValues& /*settings*/, const TensorMap& /*tensors*/,
                           const MutableColumnsView& out) override {
    return policy_.Forward(obs, env_ids, settings_, out);
  }
  absl::Status Reset(absl::Span<const int> env_ids) override { return policy_.Reset(env_ids); }
  absl::Status LoadModel(StateReader* reader) override { return policy_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override { return policy_.SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return policy_.LoadState(reader); }

 private:
  CollectMode& policy_;
  const NamedValues settings_;
};

class ConfiguredCollector : public TaskCollector {
 public:
  static absl::StatusOr<std::unique_ptr<TaskCollector>> Create(const ExperimentConfig& config,
                                                               const CollectorTask& task,
                                                               CollectorLink* link,
                                                               ComponentDeps deps, TaskEnvs* envs,
                                                               std::shared_ptr<Policy>* opponent) {
    auto made = std::make_unique<ConfiguredCollector>();
    const uint64_t seed = config.seed();
    const uint64_t number = static_cast<uint64_t>(task.number());
    const bool eval = task.eval_flag();
    DING_ASSIGN_OR_RETURN(made->env_, envs->Make(config, task, deps.clock));
    DING_RETURN_IF_ERROR(made->env_->Seed(EnvSeed(config, task), /*dynamic=*/true));
    // Player 0 of the task learns in it.
    const bool both_learn = OpponentLearns(config) && task.player_size() > 1;
    PolicyModes modes;
    modes.learn = modes.command = false;
    modes.collect = !eval;
    modes.eval = eval;
    for (int i = 0; i < (eval ? 1 : std::max(1, task.player_size())); ++i) {
      const bool is_opponent = both_learn && i != task.home_seat();
      const EnvSpec player = PlayerSpec(made->env_->env_spec(), is_opponent ? 1 : 0);
      ExperimentConfig own = config;
      if (is_opponent) {
        DING_ASSIGN_OR_RETURN(own, OpponentConfig(config));
      }
      modes.command = both_learn && i > 0;
      PolicyContext context = MakePolicyContext(own, player, modes);
      const uint64_t own_seed = Rng::DeriveSeed(seed, "collect_policy", number);
      context.seed =
          i == 0 ? own_seed : Rng::DeriveSeed(own_seed, "player", static_cast<uint64_t>(i));
      DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy,
                            create_policy(MakeCollectorPolicyConfig(own), context));
      made->policies_.push_back(std::move(policy));
      made->collect_modes_.push_back(made->policies_.back()->collect_mode());
      if (both_learn && i > 0) {
        made->only_plays_ = std::make_unique<WithSettings>(
            made->collect_modes_.back(), SettingsOf(made->policies_.back().get(), task));
        made->collect_modes_.back() = made->only_plays_.get();
      } else if (task.acts_at_random()) {
        DING_ASSIGN_OR_RETURN(made->random_starts_.emplace_back(),
                              RandomStart::Create(made->collect_modes_.back(), player,
                                                  Rng::DeriveSeed(context.seed, "random_collect"),
                                                  [link] { return link->acts_at_random(); }));
        made->collect_modes_.back() = made->random_starts_.back().get();
      }
    }

    const bool confirms = task.has_confirmation();
    if (confirms && config.env().n_confirm_episode() == 0) {
      return absl::InvalidArgumentError(
          "the task confirms an evaluation, but env.n_confirm_episode is 0");
    }
    if (both_learn) {
      if (eval) DING_RETURN_IF_ERROR(made->TakeOpponent(config, link));
    } else if (HasOpponent(config)) {
      DING_RETURN_IF_ERROR(made->LoadOpponent(config, opponent));
    }
    if (eval) DING_RETURN_IF_ERROR(made->MakeEvaluatorOf(config, confirms, deps));
    ParallelCollectorTask parameters;
    // A run with a data set has no env steps: its values are over train iterations.
    if (!IsSupervised(config)) parameters.envstep = task.envstep();
    parameters.home_seat = task.home_seat();
    parameters.task_id = task.task_id();
    parameters.eval_flag = eval;
    parameters.collect_setting = FromSettings(task.collect_setting());
    DING_ASSIGN_OR_RETURN(parameters.collect_tensors, TensorsOf(task));
    ParallelCollectorParts parts;
    parts.env = made->env_.get();
    parts.collect_mode = made->collect_modes_[0];
    parts.eval_mode = made->policies_[0]->eval_mode();
    for (int i = 0; !eval && i < task.player_size(); ++i) {
      parts.players.push_back(
          {made->collect_modes_[static_cast<size_t>(i)], task.player(i).update_policy()});
    }
    if (!eval && made->opponent_mode_ != nullptr) {
      parts.players.push_back({parts.collect_mode, /*updates=*/true});
      for (int seat = 1; seat < made->env_->env_spec().players; ++seat) {
        parts.players.push_back({made->opponent_mode_.get(), /*updates=*/false, /*is_fixed=*/true});
      }
    }
    if (eval) {
      parts.evaluator = [evaluating = made.get()](const EvalOptions& options) {
        return evaluating->Evaluate(options);
      };
    }
    parts.link = link;
    parts.episodes_per_env = eval ? EvaluationEpisodesPerEnv(config.env(), confirms)
                                  : config.env().collector_episode_num();
    const bool on_policy = !eval && made->collect_modes_[0]->attributes().on_policy;
    made->sequences_ = on_policy ? ItemSequencesOfRounds(config)
                                 : ItemSequencesOf(config.policy().other().replay_buffer());
    deps.name = confirms ? "confirmation" : eval ? "evaluator" : "collector";
    DING_ASSIGN_OR_RETURN(made->collector_, create_parallel_collector(MakeCollectorConfig(config),
                                                                      parameters, parts, deps));
    return made;
  }

  BaseParallelCollector* collector() override { return collector_.get(); }
  ItemSequences sequences() const override { return sequences_; }

 private:
  // The settings of the policy that only plays in the task, as of the version that it plays.
  static NamedValues SettingsOf(Policy* policy, const CollectorTask& task) {
    if (policy->command_mode() == nullptr) return {};
    return policy->command_mode()->GetSettingCollect(
        {{"learner_step", static_cast<double>(task.player(1).policy().train_iter())},
         {"envstep", static_cast<double>(task.envstep())}});
  }

  // Loads the version of the opponent's policy that the task names.
  absl::Status TakeOpponent(const ExperimentConfig& config, CollectorLink* link) {
    if (env_->env_spec().players == 1) return absl::OkStatus();  // env.evaluator_type is for one
    DING_ASSIGN_OR_RETURN(
        opponent_, MakeOpponentPolicy(config, PlayerSpec(env_->env_spec(), 1), EvalModeOnly()));
    std::optional<PolicyUpdate> update;
    while (!update.has_value()) {  // Closing the task ends it.
      DING_ASSIGN_OR_RETURN(update, link->GetPolicyUpdate(/*player=*/1, /*version=*/0, kLoadWait));
    }
    return Annotate(opponent_->eval_mode()->LoadModel(update->model.get()), "opponent");
  }

  // Loads it unless an earlier task has done so.
  absl::Status LoadOpponent(const ExperimentConfig& config, std::shared_ptr<Policy>* opponent) {
    if (env_->env_spec().players == 1) return absl::OkStatus();  // env.evaluator_type is for one
    if (*opponent == nullptr) {
      absl::StatusOr<std::shared_ptr<Policy>> loaded =
          MakeOpponentPolicy(config, PlayerSpec(env_->env_spec(), 1), EvalModeOnly());
      if (!loaded.ok()) return Annotate(loaded.status(), kSeesOpponent);
      *opponent = *std::move(loaded);
    }
    opponent_ = *opponent;
    opponent_eval_ = std::make_unique<EvalCollectMode>(opponent_->eval_mode());
    opponent_mode_ = std::make_unique<WithSettings>(opponent_eval_.get(), NamedValues());
    return absl::OkStatus();
  }

  absl::Status MakeEvaluatorOf(const ExperimentConfig& config, bool confirms, ComponentDeps deps) {
    deps.name = "evaluator";
    deps.seed = config.seed();  // The opponent acts the same in all evaluations.
    EvalMode* const policy = policies_[0]->eval_mode();
    absl::StatusOr<std::unique_ptr<ISerialEvaluator>> evaluator =
        confirms ? MakeConfirmer(config, env_.get(), policy, deps, opponent_)
                 : MakeEvaluator(config, env_.get(), policy, deps, opponent_);
    if (!evaluator.ok()) {
      if (!config.policy().eval().has_opponent_checkpoint()) return evaluator.status();
      // The coordinator has loaded it, and adds the name of the worker.
      return Annotate(evaluator.status(), kSeesOpponent);
    }
    evaluator_ = *std::move(evaluator);
    // What needs no parameters needs nothing of earlier evaluations.
    if (confirms || !config.policy().eval().evaluator().has_params()) return absl::OkStatus();
    evaluator_folder_ = JoinPath(deps.exp_dir, kEvaluatorFolder);
    return absl::OkStatus();
  }

  // Each evaluation is a task with an evaluator of its own, in whatever process is free. What it
  // must know of earlier evaluations, such as when it last made videos, is in a folder that all
  // processes see. Of two processes that evaluate at once, the last one to finish is kept. A state
  // that cannot be read or written is a warning in the log: the evaluation counts all the same.
  absl::StatusOr<EvalResult> Evaluate(const EvalOptions& options) {
    if (evaluator_folder_.empty()) return evaluator_->Eval(options);
    if (const absl::Status loaded = LoadEvaluator(); !loaded.ok()) {
      DING_LOG(WARNING) << "earlier evaluations are forgotten: " << evaluator_folder_ << ": "
                        << loaded.message();
    }
    DING_ASSIGN_OR_RETURN(EvalResult result, evaluator_->Eval(options));
    const auto save = [this](StateWriter* writer) { return evaluator_->SaveState(writer); };
    const absl::Status saved =
        WriteCheckpoint(evaluator_folder_, {kEvaluatorKind, {}}, {{kEvaluatorComponent, save}});
    DING_LOG_IF(WARNING, !saved.ok())
        << "later evaluations will not know of this one: " << evaluator_folder_ << ": "
        << saved.message();
    return result;
  }

  absl::Status LoadEvaluator() {
    if (!PathExists(evaluator_folder_)) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint,
                          CheckpointReader::Open(evaluator_folder_));
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> state,
                          checkpoint.Component(kEvaluatorComponent));
    return evaluator_->LoadState(state.get());
  }

  ItemSequences sequences_;
  std::shared_ptr<EnvManager> env_;
  std::shared_ptr<Policy> opponent_;  // null: there is none, or it is not needed
  std::unique_ptr<EvalCollectMode> opponent_eval_;
  std::unique_ptr<WithSettings> opponent_mode_;
  // One for each player of a league, or one.
  std::vector<std::unique_ptr<Policy>> policies_;
  std::vector<std::unique_ptr<RandomStart>> random_starts_;  // of a task that begins at random
  std::unique_ptr<WithSettings> only_plays_;  // where the policy and its opponent learn
  std::vector<CollectMode*> collect_modes_;
  std::unique_ptr<ISerialEvaluator> evaluator_;  // of an evaluation
  std::string evaluator_folder_;                 // empty: it needs nothing of earlier ones
  std::unique_ptr<BaseParallelCollector> collector_;
};

}  // namespace

TaskCollectorFactory MakeTaskCollectorFactory(const ExperimentConfig& config,
                                              const ComponentDeps& deps, int place) {
  const auto opponent = std::make_shared<std::shared_ptr<Policy>>();
  const auto envs = std::make_shared<TaskEnvs>(place);
  return [config, deps, envs, opponent](
             const CollectorTask& task,
             CollectorLink* link) -> absl::StatusOr<std::unique_ptr<TaskCollector>> {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig own, ConfigOfTask(config, task));
    return ConfiguredCollector::Create(own, task, link, deps, envs.get(), opponent.get());
  };
}

}  // namespace ding
