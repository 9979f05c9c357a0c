#include "ding_worker/collector/core/collect_core.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/random_policy.h"

namespace ding {
namespace {

constexpr char kUnfinishedEnvs[] = "unfinished_envs";  // in saved states

std::vector<std::string> ProblemsOf(const CollectCore::Options& options, const EnvManager* env,
                                    const std::vector<CollectMode*>& policies) {
  const SerialCollectorOptions& common = options.common;
  std::vector<std::string> problems = common.problems;
  if (common.collect_print_freq < 1) {
    problems.push_back(
        absl::StrCat("collect_print_freq is ", common.collect_print_freq, ", expected at least 1"));
  }
  if (common.max_abnormal < 1) {
    problems.push_back(
        absl::StrCat("max_abnormal is ", common.max_abnormal, ", expected at least 1"));
  }
  if (options.maxlen.value_or(1) < 1) {
    problems.push_back(
        absl::StrCat("maxlen (traj_len) is ", *options.maxlen, ", expected at least 1"));
  }
  if (env == nullptr) problems.push_back("no env manager");
  if (policies.empty() || std::count(policies.begin(), policies.end(), nullptr) > 0) {
    problems.push_back(options.game ? "no policy for some player" : "no policy");
  }
  return problems;
}

std::vector<SpecPtr> OutputsOf(const std::vector<CollectMode*>& policies) {
  std::vector<SpecPtr> outputs;
  for (const CollectMode* policy : policies) outputs.push_back(policy->output_spec());
  return outputs;
}

}  // namespace

std::vector<CollectMode*> PoliciesOf(CollectMode* policy) {
  return policy == nullptr ? std::vector<CollectMode*>() : std::vector<CollectMode*>{policy};
}

absl::StatusOr<std::unique_ptr<CollectCore>> CollectCore::Create(Options options, EnvManager* env,
                                                                 std::vector<CollectMode*> policies,
                                                                 ComponentDeps deps) {
  if (deps.name.empty()) deps.name = "collector";
  DING_RETURN_IF_ERROR(ProblemsToStatus(ProblemsOf(options, env, policies), deps.name));
  auto core = absl::WrapUnique(new CollectCore(std::move(options), std::move(deps)));
  DING_RETURN_IF_ERROR(core->Reset(std::move(policies), env));
  return core;
}

absl::Status CollectCore::ResetEnv(EnvManager* env) {
  const bool running = env != nullptr && !env->closed();
  DING_RETURN_IF_ERROR(env != nullptr ? Use(env, policies()) : Annotate(env_->Reset(), deps_.name));
  ForgetEpisodes(running);
  return Annotate(ForgetRecurrentState({}), deps_.name);
}

absl::Status CollectCore::ResetPolicies(std::vector<CollectMode*> policies) {
  if (!policies.empty()) DING_RETURN_IF_ERROR(Use(env_, policies));
  return Annotate(ForgetRecurrentState({}), deps_.name);
}

absl::Status CollectCore::Reset(std::vector<CollectMode*> policies, EnvManager* env) {
  const bool running = env != nullptr && !env->closed();
  DING_RETURN_IF_ERROR(
      Use(env != nullptr ? env : env_, policies.empty() ? this->policies() : policies));
  if (env == nullptr) DING_RETURN_IF_ERROR(Annotate(env_->Reset(), deps_.name));
  statistics_ = FreshStatistics(*env_);
  ForgetEpisodes(running);
  return Annotate(ForgetRecurrentState({}), deps_.name);
}

absl::Status CollectCore::Use(EnvManager* env, const std::vector<CollectMode*>& policies) {
  if (std::count(policies.begin(), policies.end(), nullptr) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(deps_.name, ": no policy for some player"));
  }
  if (!players_.empty() && policies.size() != players_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(deps_.name, ": ", policies.size(),
                                                   " policies, expected as many as before, ",
                                                   players_.size()));
  }
  DING_RETURN_IF_ERROR(Annotate(
      CheckPoliciesFitEnv(OutputsOf(policies), options_.game, env->env_spec()), deps_.name));
  absl::StatusOr<std::vector<TrajBuffer>> fresh =
      rows_.Make(*env, policies, rows_.with_level_seed());
  if (!fresh.ok()) return Annotate(fresh.status(), deps_.name);
  if (env->closed()) DING_RETURN_IF_ERROR(Annotate(env->Launch(), deps_.name));
  env_ = env;
  players_.resize(policies.size());
  for (size_t i = 0; i < policies.size(); ++i) {
    players_[i].policy = policies[i];
    players_[i].random.reset();
    players_[i].attributes = policies[i]->attributes();
  }
  rows_.Use(env->env_spec(), *std::move(fresh));
  action_columns_.resize(players_.size());
  return absl::OkStatus();
}

std::vector<CollectMode*> CollectCore::policies() const {
  std::vector<CollectMode*> policies;
  for (const Player& player : players_) policies.push_back(player.policy);
  return policies;
}

CollectStatistics CollectCore::FreshStatistics(const EnvManager& env) const {
  CollectStatistics::Options options;
  options.env_num = env.env_num();
  options.players = player_num();
  options.stream_base = options_.common.stream_base;
  options.collect_print_freq = options_.common.collect_print_freq;
  options.max_abnormal = options_.common.max_abnormal;
  options.log_samples = options_.log_samples;
  return CollectStatistics(options);
}

void CollectCore::ForgetEpisodes(bool unfinished) {
  unfinished_.assign(static_cast<size_t>(env_->env_num()), unfinished);
  statistics_->ForgetEpisodes(env_->env_num());
  for (int id = 0; id < env_->env_num(); ++id) rows_.DropEpisode(id);
}

absl::Status CollectCore::ForgetRecurrentState(absl::Span<const int> env_ids) {
  for (int i = 0; i < player_num(); ++i) {
    const absl::Span<const int> seats = SeatsOf(i, env_ids);
    DING_RETURN_IF_ERROR(CallPolicy([&] { return players_[i].policy->Reset(seats); }));
  }
  return absl::OkStatus();
}

absl::Status CollectCore::DropEpisodes(absl::Span<const int> env_ids) {
  for (const int env_id : env_ids) {
    if (env_id < 0 || env_id >= env_->env_num()) {
      return absl::InvalidArgumentError(absl::StrCat(deps_.name, ": there is no env ", env_id,
                                                     ", expected 0 to ", env_->env_num() - 1));
    }
  }
  for (const int env_id : env_ids) {
    rows_.DropEpisode(env_id);
    statistics_->ForgetEpisode(env_id);
  }
  // Reset() without envs would mean all envs.
  if (env_ids.empty()) return absl::OkStatus();
  DING_RETURN_IF_ERROR(Annotate(ForgetRecurrentState(env_ids), deps_.name));
  for (const int env_id : env_ids) unfinished_[env_id] = false;
  return absl::OkStatus();
}

absl::Status CollectCore::PrepareLevelSeeds(const std::vector<int64_t>& level_seeds) {
  const bool wanted = !level_seeds.empty();
  if (wanted && static_cast<int>(level_seeds.size()) != env_->env_num()) {
    return absl::InvalidArgumentError(
        absl::StrCat(level_seeds.size(), " level seeds for ", env_->env_num(), " envs"));
  }
  if (wanted == rows_.with_level_seed()) return absl::OkStatus();
  int64_t waiting = 0;
  for (int i = 0; i < player_num(); ++i) {
    waiting += rows_.of(i).ready_rows() + rows_.of(i).held_rows();
  }
  if (waiting > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(wanted ? "level seeds are given" : "no level seeds are given", ", but ",
                     waiting, " rows of an earlier collect wait for their episodes to end, ",
                     wanted ? "without" : "with", " level seeds"));
  }
  DING_ASSIGN_OR_RETURN(std::vector<TrajBuffer> fresh, rows_.Make(*env_, policies(), wanted));
  rows_.Use(env_->env_spec(), std::move(fresh));
  return absl::OkStatus();
}

absl::Status CollectCore::Reserve(int64_t rows) {
  for (int i = 0; i < player_num(); ++i) {
    const int64_t missing = std::max<int64_t>(0, rows - rows_.of(i).ready_rows());
    const std::optional<int64_t> room = CheckedSum(missing, env_->env_num());
    DING_RETURN_IF_ERROR(rows_.of(i).Reserve(room.value_or(missing)));
  }
  return absl::OkStatus();
}

absl::StatusOr<const Timesteps*> CollectCore::StepReadyEnvs(const CollectOptions& options) {
  return StepEnvs(env_->ready_obs(), options, [](int) { return true; });
}

absl::StatusOr<const Timesteps*> CollectCore::StepEnvs(
    const ActingEnvs& acting, const CollectOptions& options,
    absl::FunctionRef<bool(int env_id)> may_act) {
  absl::StatusOr<const Timesteps*> timesteps = TryStepEnvs(acting, options, may_act);
  if (timesteps.ok()) {
    for (const int env_id : ended_envs_) unfinished_[env_id] = false;
  } else {
    waits_ = 0;
    DropRowsUnderWay();
  }
  return timesteps;
}

absl::StatusOr<const Timesteps*> CollectCore::TryStepEnvs(
    const ActingEnvs& acting, const CollectOptions& options,
    absl::FunctionRef<bool(int env_id)> may_act) {
  if (closed_) return absl::FailedPreconditionError("is closed");
  if (options.cancelled && options.cancelled()) {
    return absl::CancelledError("the collect was cancelled");
  }
  if (acting.env_ids.empty() && !waiting()) {
    DING_RETURN_IF_ERROR(WaitForEnv(*env_, may_act, &waits_));
  } else {
    waits_ = 0;
  }
  const int64_t begun = StepNanos();
  for (int i = 0; i < player_num(); ++i) DING_RETURN_IF_ERROR(Act(i, acting, options));
  const int64_t acted = StepNanos();
  const ColumnsView actions(env_->env_spec().action.get(), action_columns_.data(), 0,
                            static_cast<int64_t>(acting.env_ids.size()));
  DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps,
                        options_.env_step != nullptr ? options_.env_step(acting.env_ids, actions)
                                                     : env_->Step(acting.env_ids, actions));
  ++step_times_.steps;
  step_times_.policy += absl::Nanoseconds(acted - begun);
  step_times_.env += absl::Nanoseconds(StepNanos() - acted);
  DING_RETURN_IF_ERROR(rows_.Store(*timesteps));
  absl::Status status =
      statistics_->Account(*timesteps, rows_.of(0).next_step(), deps_, &ended_envs_);
  if (!ended_envs_.empty()) status.Update(ForgetRecurrentState(ended_envs_));
  DING_RETURN_IF_ERROR(status);
  return timesteps;
}

absl::StatusOr<CollectMode*> CollectCore::ActingPolicy(int player, const CollectOptions& options) {
  Player& actor = players_[player];
  if (!options.random_collect) return actor.policy;
  if (actor.random == nullptr) {
    const EnvSpec spec = PlayerSpec(env_->env_spec(), player);
    const Spec& output = *actor.policy->output_spec();
    if (output.size() > spec.action->size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "random_collect is set, but the policy stores '", output.field(spec.action->size()).name,
          "' beside its actions, which random actions do not have"));
    }
    DING_ASSIGN_OR_RETURN(
        actor.random,
        RandomCollectMode::Create(
            spec.action, Rng::DeriveSeed(deps_.seed, absl::StrCat("random_collect", player)),
            actor.attributes, spec.observation));
  }
  return actor.random.get();
}

absl::Status CollectCore::Act(int player, const ActingEnvs& acting, const CollectOptions& options) {
  // No env acts; the step only waits for the answers of others.
  if (acting.env_ids.empty()) return absl::OkStatus();
  Player& actor = players_[player];
  DING_ASSIGN_OR_RETURN(CollectMode* const policy, ActingPolicy(player, options));
  ActingEnvs own(acting.env_ids, rows_.ObsOf(player, acting.obs), acting.rows);
  const int64_t action_bytes = env_->env_spec().action->row_bytes(player);
  const bool has_ended = player_num() > 1 && actor.acts.Choose(*env_, player, acting.env_ids);
  if (has_ended) {
    own_rows_.clear();
    for (const int64_t i : actor.acts.rows()) {
      own_rows_.push_back(acting.rows.empty() ? i : acting.rows[static_cast<size_t>(i)]);
    }
    own.env_ids = actor.acts.env_ids();
    own.rows = own_rows_;
    if (own.env_ids.empty()) {
      action_columns_[player] = actor.acts.Spread(nullptr, action_bytes, acting.env_ids.size());
      return absl::OkStatus();
    }
  }
  DING_ASSIGN_OR_RETURN(const TrajBuffer::Appended added,
                        rows_.of(player).Append(own, options.train_iter, options.level_seeds));
  action_columns_[player] = added.output.raw_column(0);
  for (const int env_id : own.env_ids) unfinished_[env_id] = true;
  const ColumnsView obs = own.rows.empty() ? own.obs : added.obs;
  const absl::Span<const int> seats = SeatsOf(player, own.env_ids);
  DING_RETURN_IF_ERROR(CallPolicy([&] {
    if (!options.policy_tensors.empty() && !options.random_collect) {
      return ForwardPolicy(policy, obs, seats, options.policy_settings, options.policy_tensors,
                           added.output);
    }
    return options_.policy_inference != nullptr
               ? options_.policy_inference(policy, obs, seats, options.policy_settings,
                                           added.output)
               : policy->Forward(obs, seats, options.policy_settings, added.output);
  }));
  if (has_ended) {
    action_columns_[player] =
        actor.acts.Spread(action_columns_[player], action_bytes, acting.env_ids.size());
  }
  return absl::OkStatus();
}

bool CollectCore::waiting() const {
  for (int id = 0; id < env_->env_num(); ++id) {
    if (rows_.under_way(id)) return true;
  }
  return false;
}

void CollectCore::DropRowsUnderWay() {
  for (int id = 0; id < env_->env_num(); ++id) {
    if (rows_.under_way(id)) rows_.DropEpisode(id);
  }
}

int64_t CollectCore::StepNanos() const {
  return options_.measure_steps ? deps_.clock->MonotonicNanos() : 0;
}

std::vector<int> CollectCore::unfinished_envs() const {
  std::vector<int> env_ids;
  for (size_t i = 0; i < unfinished_.size(); ++i) {
    if (unfinished_[i]) env_ids.push_back(static_cast<int>(i));
  }
  return env_ids;
}

absl::StatusOr<std::vector<uint8_t>> CollectCore::LoadUnfinished(StateReader* reader) const {
  const absl::StatusOr<TensorInfo> info = reader->Info(kUnfinishedEnvs);
  // Earlier versions saved them for collectors of episodes only.
  if (!info.ok()) return unfinished_;
  std::vector<int64_t> env_ids(static_cast<size_t>(NumElements(info->shape)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>(kUnfinishedEnvs, absl::MakeSpan(env_ids)));
  std::vector<uint8_t> unfinished(unfinished_.size(), false);
  for (const int64_t id : env_ids) {
    if (id < 0 || id >= env_->env_num()) {
      return absl::DataLossError(
          absl::StrCat("saved env is ", id, ", expected 0 to ", env_->env_num() - 1));
    }
    unfinished[static_cast<size_t>(id)] = true;
  }
  return unfinished;
}

absl::Status CollectCore::RestartUnfinishedEnvs() {
  const std::vector<int> env_ids = unfinished_envs();
  if (env_ids.empty()) return absl::OkStatus();
  std::vector<EnvReset> resets;
  for (const int env_id : env_ids) resets.push_back({env_id, std::nullopt});
  DING_RETURN_IF_ERROR(env_->Reset(resets));
  return DropEpisodes(env_ids);
}

absl::Status CollectCore::ReshapeRewards(int env_id, const RewardShaping& shaping) {
  const auto reshape = [&](const ColumnsView& rows, absl::Span<float> rewards) {
    return Annotate(CallUser("it", [&] { return shaping(env_id, rows, rewards); }),
                    "reward_shaping");
  };
  return rows_.of(0).ReshapeRewards(env_id, reshape);
}

absl::Status CollectCore::CheckPlayer(int player) const {
  if (player >= 0 && player < player_num()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no player ", player, ", only 0 to ", player_num() - 1));
}

absl::StatusOr<SegmentBatch> CollectCore::Take(int player, int64_t max_rows, const ReadyObs& now) {
  DING_RETURN_IF_ERROR(CheckPlayer(player));
  TrajBuffer& traj = rows_.of(player);
  DING_ASSIGN_OR_RETURN(SegmentBatch data, traj.Take(max_rows, ViewOf(player, now)));
  statistics_->CountSamples(data.segments, traj.taken_samples());
  return data;
}

ReadyObs CollectCore::ViewOf(int player, const ReadyObs& ready) const {
  if (ready.env_ids.empty()) return {};
  return {ready.env_ids, rows_.ObsOf(player, ready.obs)};
}

absl::Status CollectCore::MakeTrainSamples(int player, SegmentBatch* data) {
  DING_RETURN_IF_ERROR(CheckPlayer(player));
  return CallPolicy([&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(*data, players_[player].policy->GetTrainSample(std::move(*data)));
    return absl::OkStatus();
  });
}

void CollectCore::DropHeldRowsIfOnPolicy(int player) {
  DING_CHECK(CheckPlayer(player).ok()) << CheckPlayer(player).message();
  TrajBuffer& traj = rows_.of(player);
  if (players_[player].attributes.on_policy && traj.held_rows() > 0) traj.DropHeldRows();
}

absl::StatusOr<SegmentBatch> CollectCore::TakeTrainSamples(int player) {
  DING_RETURN_IF_ERROR(CheckPlayer(player));
  DING_ASSIGN_OR_RETURN(SegmentBatch data, Take(player, ready_rows(player), env_->ready_obs()));
  DropHeldRowsIfOnPolicy(player);
  DING_RETURN_IF_ERROR(MakeTrainSamples(player, &data));
  return data;
}

absl::Status CollectCore::DropAllRows() {
  for (int id = 0; id < env_->env_num(); ++id) rows_.DropEpisode(id);
  for (int i = 0; i < player_num(); ++i) {
    DING_RETURN_IF_ERROR(rows_.of(i).Take(0, ReadyObs()).status());
  }
  return absl::OkStatus();
}

std::vector<CollectedEpisode> CollectCore::TakeFinishedEpisodes(bool record) {
  return statistics_->TakeFinished(record);
}

void CollectCore::FinishCollect(const CollectOptions& options, double seconds) {
  statistics_->TakeFinished(options.record_episodes);
  statistics_->FinishCollect(options.record_episodes, seconds, options.train_iter,
                             options.policy_settings, deps_);
}

absl::Status CollectCore::Close() {
  closed_ = true;
  statistics_->LogRest(deps_);
  return FlushSink(deps_.metrics.get());
}

absl::Status CollectCore::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(statistics_->SaveState(writer));
  DING_RETURN_IF_ERROR(writer->WriteInt("level_seed", rows_.with_level_seed() ? 1 : 0));
  DING_RETURN_IF_ERROR(rows_.SaveState(writer));
  const std::vector<int> env_ids = unfinished_envs();
  const std::vector<int64_t> unfinished(env_ids.begin(), env_ids.end());
  return writer->WriteSpan<int64_t>(kUnfinishedEnvs, unfinished);
}

absl::Status CollectCore::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(CollectStatistics statistics, statistics_->LoadState(reader));
  DING_ASSIGN_OR_RETURN(std::vector<uint8_t> unfinished, LoadUnfinished(reader));
  DING_ASSIGN_OR_RETURN(const int64_t level_seed, reader->ReadInt("level_seed"));
  DING_ASSIGN_OR_RETURN(std::vector<TrajBuffer> fresh,
                        rows_.Make(*env_, policies(), level_seed != 0));
  DING_RETURN_IF_ERROR(rows_.LoadState(reader, std::move(fresh)));
  unfinished_ = std::move(unfinished);
  statistics_ = std::move(statistics);
  return absl::OkStatus();
}

}  // namespace ding
