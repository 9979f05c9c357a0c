#include "ding_worker/collector/parallel/parallel_collector_core.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/env/env.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

// The interval at which a collector that waits for its first policy checks whether it is closed.
constexpr absl::Duration kPolicyWait = absl::Milliseconds(100);
// Sends may happen a thousand times a second.
constexpr absl::Duration kMinLogPeriod = absl::Seconds(5);

// The bytes of a sent row, with its share of the final observations.
double PayloadBytes(const SegmentBatch& data) {
  const int64_t bytes = data.rows.rows() * data.rows.spec().row_bytes() +
                        data.final_obs.rows() * data.final_obs.spec().row_bytes();
  return static_cast<double>(bytes) / static_cast<double>(data.size());
}

// Returns the evaluator's score, unless it is the mean return, which follows from the returns.
std::optional<double> OwnScore(const EvalResult& result) {
  const std::vector<double>& returns = result.episode_return;
  if (returns.empty()) return std::nullopt;
  const double mean =
      std::accumulate(returns.begin(), returns.end(), 0.0) / static_cast<double>(returns.size());
  // An evaluator may add in another order. NaN is a score of its own.
  if (std::abs(mean - result.mean_return) <= 1e-6 * (1 + std::abs(mean))) return std::nullopt;
  return result.mean_return;
}

}  // namespace

std::vector<std::string> ParallelCollectorCore::Options::Problems() const {
  std::vector<std::string> problems;
  if (print_freq < 1) {
    problems.push_back(absl::StrCat("print_freq is ", print_freq, ", expected at least 1"));
  }
  if (update_policy_period < absl::ZeroDuration()) {
    problems.push_back(absl::StrCat("update_policy_second is ",
                                    absl::ToDoubleSeconds(update_policy_period),
                                    ", expected 0 or more"));
  }
  if (max_abnormal < 1) {
    problems.push_back(absl::StrCat("max_abnormal is ", max_abnormal, ", expected at least 1"));
  }
  if (!reward_shaping.empty()) {
    const absl::Status found = FindRewardShaping(reward_shaping).status();
    if (!found.ok()) problems.push_back(absl::StrCat("reward_shaping: ", found.message()));
  }
  return problems;
}

std::vector<std::string> ParallelCollectorCore::ProblemsOf(
    const Options& options, const ParallelCollectorTask& task, const ParallelCollectorParts& parts,
    absl::Span<const ParallelPlayer> players) {
  std::vector<std::string> problems = options.Problems();
  if (parts.env == nullptr) problems.push_back("no env manager");
  if (parts.link == nullptr) problems.push_back("no link");
  if (parts.episodes_per_env < 1) {
    problems.push_back(
        absl::StrCat("episodes_per_env is ", parts.episodes_per_env, ", expected at least 1"));
  }
  if (task.eval_flag) {
    if (parts.eval_mode == nullptr) problems.push_back("no policy that evaluates");
    return problems;
  }
  for (const ParallelPlayer& player : players) {
    if (player.collect_mode == nullptr) {
      problems.push_back("no policy that collects");
      return problems;
    }
  }
  if (players.empty()) return problems;
  if (!parts.players.empty() && players.size() != parts.players.size()) {
    problems.push_back(absl::StrCat(parts.players.size(), " players for a collector of ",
                                    players.size(), ", expected one that plays with all of them"));
  }
  const int seats = parts.env == nullptr ? 1 : parts.env->env_spec().players;
  if (seats > 1 && !options.reward_shaping.empty()) {
    problems.push_back(absl::StrCat("reward_shaping is '", options.reward_shaping,
                                    "' in a game, expected none: it is for envs with one player"));
  }
  if (parts.env != nullptr && players.size() > 1 && players.size() != static_cast<size_t>(seats)) {
    problems.push_back(absl::StrCat(players.size(), " policies for env '",
                                    parts.env->env_spec().name, "', which has ", seats,
                                    " players, expected one for each, or one for all of them"));
  }
  const CollectAttributes attributes = players[0].collect_mode->attributes();
  if (!attributes.n_sample.has_value() && !attributes.n_episode.has_value()) {
    problems.push_back("the policy has neither n_sample nor n_episode, expected one of them");
  }
  if (attributes.n_sample.value_or(1) < 1) {
    problems.push_back(
        absl::StrCat("the policy's n_sample is ", *attributes.n_sample, ", expected at least 1"));
  }
  return problems;
}

absl::StatusOr<ParallelCollectorCore::Setup> ParallelCollectorCore::Prepare(
    const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
    ComponentDeps deps, std::vector<ParallelPlayer> players, bool is_game,
    const std::vector<std::string>& more_problems) {
  if (deps.name.empty()) deps.name = task.eval_flag ? "evaluator" : "collector";
  std::vector<std::string> problems = ProblemsOf(options, task, parts, players);
  problems.insert(problems.end(), more_problems.begin(), more_problems.end());
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, deps.name));
  Setup setup;
  setup.options = options;
  setup.task = std::move(task);
  setup.parts = parts;
  setup.deps = std::move(deps);
  setup.players = std::move(players);
  setup.is_game = is_game;
  return setup;
}

ParallelCollectorCore::ParallelCollectorCore(Setup setup)
    : options_(setup.options),
      task_(std::move(setup.task)),
      parts_(std::move(setup.parts)),
      deps_(std::move(setup.deps)),
      players_(std::move(setup.players)),
      versions_(std::max<size_t>(1, players_.size()), 0),
      has_policy_(versions_.size(), 0),
      episodes_(static_cast<size_t>(parts_.env->env_num()), 0),
      plays_(static_cast<size_t>(parts_.env->env_num()), 1),
      envs_playing_(parts_.env->env_num()),
      in_episode_(plays_.size(), 0),
      averages_(static_cast<int>(2 * options_.print_freq)) {
  acting_.policy_settings = task_.collect_setting;
  for (size_t i = 0; !task_.eval_flag && i < players_.size(); ++i) {
    has_policy_[i] = players_[i].is_fixed;
  }
  if (!options_.reward_shaping.empty()) {
    reward_shaping_ = *FindRewardShaping(options_.reward_shaping);  // Problems() has looked
  }
  info_.eval_flag = task_.eval_flag;
  info_.is_game = setup.is_game;
  info_.env_num = parts_.env->env_num();
  info_.predefined_episode_count = info_.env_num * parts_.episodes_per_env;
}

CollectorFinishInfo ParallelCollectorCore::GetFinishInfo() const {
  const MutexLock lock(&mutex_);
  return info_;
}

absl::Status ParallelCollectorCore::Run() {
  if (std::exchange(has_run_, true)) {
    return absl::FailedPreconditionError(
        absl::StrCat(deps_.name, ": Run() has been called before"));
  }
  const Timer timer(deps_.clock);
  const absl::Status status = TryRun();
  parts_.env->Close();
  const MutexLock lock(&mutex_);
  info_.duration_seconds = timer.Seconds();
  if (absl::IsCancelled(status) && closed()) return absl::OkStatus();
  info_.collector_done = status.ok();
  return status;
}

absl::Status ParallelCollectorCore::TryRun() {
  DING_RETURN_IF_ERROR(Annotate(WaitForPolicies(), deps_.name));
  return task_.eval_flag ? Evaluate() : Collect();
}

absl::Status ParallelCollectorCore::OfLink(const absl::Status& status) {
  if (absl::IsCancelled(status)) Close();
  return status;
}

absl::Status ParallelCollectorCore::WaitForPolicies() {
  while (std::count(has_policy_.begin(), has_policy_.end(), false) > 0) {
    if (closed()) return absl::CancelledError("closed before there was a policy");
    DING_RETURN_IF_ERROR(TakePolicies(kPolicyWait));
  }
  return absl::OkStatus();
}

absl::Status ParallelCollectorCore::TakePolicies(absl::Duration timeout) {
  for (size_t i = 0; i < versions_.size(); ++i) {
    if (has_policy_[i] && !task_.eval_flag && !players_[i].updates) continue;
    DING_ASSIGN_OR_RETURN(has_policy_[i], CallUser("UpdatePolicy()", [&] {
                            return UpdatePolicy(static_cast<int>(i), timeout);
                          }));
  }
  since_look_.emplace(deps_.clock);
  return absl::OkStatus();
}

absl::StatusOr<bool> ParallelCollectorCore::UpdatePolicy(int player, absl::Duration timeout) {
  uint64_t& version = versions_[static_cast<size_t>(player)];
  const absl::StatusOr<std::optional<PolicyUpdate>> update =
      parts_.link->GetPolicyUpdate(player, version, timeout);
  DING_RETURN_IF_ERROR(OfLink(update.status()));
  if (!update->has_value()) return version > 0;
  const PolicyUpdate& newer = **update;
  const absl::Status loaded = CallPolicy([&] {
    return task_.eval_flag
               ? parts_.eval_mode->LoadModel(newer.model.get())
               : players_[static_cast<size_t>(player)].collect_mode->LoadModel(newer.model.get());
  });
  if (!loaded.ok()) return Annotate(loaded, absl::StrCat("policy version ", newer.version));
  version = newer.version;
  if (player > 0) return true;
  acting_.train_iter = newer.train_iter;
  const MutexLock lock(&mutex_);
  info_.policy_version = newer.version;
  info_.train_iter = newer.train_iter;
  return true;
}

absl::Status ParallelCollectorCore::Evaluate() {
  EvalOptions eval;
  eval.train_iter = acting_.train_iter;
  eval.envstep = task_.envstep;
  eval.n_episode = parts_.env->env_num() * parts_.episodes_per_env;
  eval.policy_settings = task_.collect_setting;
  eval.policy_tensors = task_.collect_tensors;
  eval.cancelled = [this] { return closed(); };
  const auto play = [&]() -> absl::StatusOr<EvalResult> {
    if (parts_.evaluator != nullptr) return parts_.evaluator(eval);
    InteractionSerialEvaluator::Options options;
    options.n_episode = *eval.n_episode;
    options.max_abnormal = options_.max_abnormal;
    DING_ASSIGN_OR_RETURN(const auto own, InteractionSerialEvaluator::Create(
                                              options, parts_.env, parts_.eval_mode, deps_));
    return own->Eval(eval);
  };
  DING_ASSIGN_OR_RETURN(EvalResult result, CallUser("the evaluator", play));
  const MutexLock lock(&mutex_);
  info_.step_count = result.envstep_count;
  info_.abnormal_episode_count = result.abnormal_episode_count;
  info_.eval_score = OwnScore(result);
  info_.info = SummarizeEnvInfo(result.episode_info);
  info_.episode_return = std::move(result.episode_return);
  return absl::OkStatus();
}

absl::Status ParallelCollectorCore::Collect() {
  CollectCore::Options options;
  options.common.max_abnormal = options_.max_abnormal;
  options.common.stream_base = task_.stream_base;
  options.whole_episodes =
      players_[0].collect_mode->attributes().n_episode.has_value() || reward_shaping_ != nullptr;
  options.game = parts_.env->env_spec().players > 1;
  options.measure_steps = true;
  options.policy_inference = [this](CollectMode* policy, const ColumnsView& obs,
                                    absl::Span<const int> env_ids, const NamedValues& settings,
                                    const MutableColumnsView& out) {
    return PolicyInference(policy, obs, env_ids, settings, out);
  };
  options.env_step = [this](absl::Span<const int> env_ids, const ColumnsView& actions) {
    return CallUser("EnvStep()", [&]() -> absl::StatusOr<const Timesteps*> {
      DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps, EnvStep(env_ids, actions));
      if (timesteps == nullptr) return absl::InternalError("EnvStep() has returned null");
      return timesteps;
    });
  };
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<CollectCore> core,
                        CollectCore::Create(std::move(options), parts_.env, Seats(), deps_));
  if (core->player_num() > 1) {
    DING_ASSIGN_OR_RETURN(const int seat, SeatThatLearns());
    absl::StatusOr<TurnTransitions> moves =
        TurnTransitions::Create(PlayerSpec(parts_.env->env_spec(), seat),
                                players_[PlayerIn(seat)].collect_mode->output_spec());
    if (!moves.ok()) return Annotate(moves.status(), deps_.name);
    moves_ = *std::move(moves);
  }
  since_log_.emplace(deps_.clock);
  return Annotate(Play(core.get()), deps_.name);
}

absl::StatusOr<int> ParallelCollectorCore::SeatThatLearns() const {
  int learns = 0;
  int seat_that_learns = 0;
  for (int seat = 0; seat < parts_.env->env_spec().players; ++seat) {
    if (!players_[PlayerIn(seat)].updates) continue;
    seat_that_learns = seat;
    ++learns;
  }
  if (learns > 1) {
    DING_RETURN_IF_ERROR(Annotate(
        CheckSamePlayers(parts_.env->env_spec()),
        absl::StrCat(deps_.name, ": all players learn, and their rows are sent together")));
  }
  return seat_that_learns;
}

std::vector<CollectMode*> ParallelCollectorCore::Seats() const {
  std::vector<CollectMode*> seats;
  for (int seat = 0; seat < parts_.env->env_spec().players; ++seat) {
    seats.push_back(players_[PlayerIn(seat)].collect_mode);
  }
  return seats;
}

absl::Status ParallelCollectorCore::Play(CollectCore* core) {
  const CollectAttributes& attributes = core->attributes(0);
  // A player that ended before its game has fewer rows than the others.
  const auto most_rows = [core] {
    int64_t rows = 0;
    for (int seat = 0; seat < core->player_num(); ++seat) {
      rows = std::max(rows, core->ready_rows(seat));
    }
    return rows;
  };
  const auto enough = [&] {
    if (attributes.n_episode.has_value()) return episodes_to_send_ >= *attributes.n_episode;
    int64_t samples = 0;
    for (int seat = 0; seat < core->player_num(); ++seat) {
      samples = std::max(samples, core->ready_samples(seat));
    }
    return samples >= *attributes.n_sample;
  };
  if (attributes.on_policy) episodes_to_begin_ = attributes.n_episode;
  while (envs_playing_ > 0) {
    if (closed()) return absl::CancelledError("closed");
    if (since_look_->Elapsed() >= options_.update_policy_period) {
      DING_RETURN_IF_ERROR(TakePolicies(absl::ZeroDuration()));
    }
    DING_RETURN_IF_ERROR(StepEnvs(core));
    const bool is_last = envs_playing_ == 0;
    const bool hands_over = is_last ? most_rows() > 0 : enough();
    if (hands_over) DING_RETURN_IF_ERROR(HandOver(core));
    if (hands_over && episodes_to_begin_.has_value()) episodes_to_begin_ = attributes.n_episode;
    // The link may have waited for the next version.
    if (hands_over && !is_last && attributes.on_policy) {
      DING_RETURN_IF_ERROR(TakePolicies(absl::ZeroDuration()));
    }
    DING_RETURN_IF_ERROR(CallUser("IterAfterHook()", [this] { return IterAfterHook(); }));
  }
  return absl::OkStatus();
}

absl::Status ParallelCollectorCore::StepEnvs(CollectCore* core) {
  const ActingEnvs playing = Playing(core->env()->ready_obs());
  DING_ASSIGN_OR_RETURN(
      const Timesteps* const timesteps,
      core->StepEnvs(playing, acting_, [this](int env_id) { return plays(env_id); }));
  DING_RETURN_IF_ERROR(
      CallUser("ProcessTimestep()", [&] { return ProcessTimestep(*timesteps, core); }));
  for (const FinishedEpisode& finished : timesteps->finished) {
    const int env_id = timesteps->env_ids[finished.row];
    in_episode_[static_cast<size_t>(env_id)] = 0;
    ++episodes_[static_cast<size_t>(env_id)];
    DING_ASSIGN_OR_RETURN(const bool goes_on,
                          CallUser("NeedNewEpisode()", [&] { return NeedNewEpisode(env_id); }));
    plays_[static_cast<size_t>(env_id)] = goes_on;
    if (!goes_on) --envs_playing_;
  }
  episodes_to_send_ += static_cast<int64_t>(timesteps->finished.size());
  return absl::OkStatus();
}

absl::Status ParallelCollectorCore::PolicyInference(CollectMode* policy, const ColumnsView& obs,
                                                    absl::Span<const int> env_ids,
                                                    const NamedValues& settings,
                                                    const MutableColumnsView& out) {
  return ForwardPolicy(policy, obs, env_ids, settings, task_.collect_tensors, out);
}

absl::StatusOr<const Timesteps*> ParallelCollectorCore::EnvStep(absl::Span<const int> env_ids,
                                                                const ColumnsView& actions) {
  return parts_.env->Step(env_ids, actions);
}

absl::StatusOr<bool> ParallelCollectorCore::NeedNewEpisode(int env_id) {
  return episodes(env_id) < parts_.episodes_per_env;
}

bool ParallelCollectorCore::MayAct(int env_id) {
  if (!plays(env_id)) return false;
  if (!episodes_to_begin_.has_value()) return true;
  uint8_t& in_episode = in_episode_[static_cast<size_t>(env_id)];
  if (in_episode == 0 && *episodes_to_begin_ > 0) {
    in_episode = 1;
    --*episodes_to_begin_;
  }
  return in_episode != 0;
}

ActingEnvs ParallelCollectorCore::Playing(const ReadyObs& ready) {
  if (envs_playing_ == parts_.env->env_num() && !episodes_to_begin_.has_value()) return ready;
  playing_ids_.clear();
  playing_rows_.clear();
  for (size_t i = 0; i < ready.env_ids.size(); ++i) {
    if (!MayAct(ready.env_ids[i])) continue;
    playing_ids_.push_back(ready.env_ids[i]);
    playing_rows_.push_back(static_cast<int64_t>(i));
  }
  return {playing_ids_, ready.obs, playing_rows_};
}

absl::Status ParallelCollectorCore::ProcessTimestep(const Timesteps& timesteps, CollectCore* core) {
  {
    const MutexLock lock(&mutex_);
    info_.step_count = core->envstep();
    info_.abnormal_episode_count += CountAbnormal(timesteps);
    for (const FinishedEpisode& finished : timesteps.finished) {
      info_.episode_return.push_back(
          task_.home_seat == 0 ? finished.episode_return
                               : finished.other_returns[static_cast<size_t>(task_.home_seat - 1)]);
    }
  }
  if (reward_shaping_ == nullptr) return absl::OkStatus();
  for (const FinishedEpisode& finished : timesteps.finished) {
    DING_RETURN_IF_ERROR(core->ReshapeRewards(timesteps.env_ids[finished.row], reward_shaping_));
  }
  return absl::OkStatus();
}

// Returns the rows to send of the players that learn.
absl::StatusOr<SegmentBatch> ParallelCollectorCore::TakeRows(CollectCore* core) {
  std::vector<SegmentBatch> wanted;
  int learner = 0;
  for (int seat = 0; seat < core->player_num(); ++seat) {
    const bool learns = players_[PlayerIn(seat)].updates;
    const int64_t rows = learns ? core->ready_rows(seat) : 0;
    DING_ASSIGN_OR_RETURN(SegmentBatch data, core->Take(seat, rows, core->env()->ready_obs()));
    if (!learns) continue;
    learner = seat;
    wanted.push_back(std::move(data));
  }
  core->TakeFinishedEpisodes(/*record=*/false);
  episodes_to_send_ = 0;
  SegmentBatch data;
  if (moves_.has_value()) {
    DING_ASSIGN_OR_RETURN(data, moves_->Take(wanted));
    // A choice whose outcome is not known yet would be sent with rows of later parameters.
    if (core->attributes(learner).on_policy) moves_->DropHeld();
  } else {
    data = std::move(wanted[0]);
  }
  DING_RETURN_IF_ERROR(core->MakeTrainSamples(learner, &data));
  return CallUser("SelectRows()", [&] { return SelectRows(std::move(data)); });
}

absl::Status ParallelCollectorCore::HandOver(CollectCore* core) {
  DING_ASSIGN_OR_RETURN(const SegmentBatch data, TakeRows(core));
  if (data.size() == 0) return absl::OkStatus();
  CollectorProgress progress;
  {
    const MutexLock lock(&mutex_);
    progress.cur_episode = static_cast<int64_t>(info_.episode_return.size());
    progress.cur_sample = info_.sample_count + data.size();
    progress.cur_step = info_.step_count;
  }
  DING_RETURN_IF_ERROR(OfLink(parts_.link->SendData(data, progress)));
  {
    const MutexLock lock(&mutex_);
    info_.sample_count = progress.cur_sample;
  }
  const CollectCore::StepTimes times = core->TakeStepTimes();
  const double steps = static_cast<double>(times.steps);
  averages_.Add("policy_time", absl::ToDoubleSeconds(times.policy) / steps);
  averages_.Add("env_time", absl::ToDoubleSeconds(times.env) / steps);
  averages_.Add("payload_bytes", PayloadBytes(data));
  has_sent_ = true;
  return absl::OkStatus();
}

absl::Status ParallelCollectorCore::IterAfterHook() {
  if (!std::exchange(has_sent_, false)) return absl::OkStatus();
  if (++hand_overs_ % options_.print_freq != 0 || since_log_->Elapsed() < kMinLogPeriod) {
    return absl::OkStatus();
  }
  since_log_.emplace(deps_.clock);
  NamedValues metrics;
  for (const auto& [name, average] : averages_.Averages()) metrics.Set(name, *average);
  const CollectorFinishInfo info = GetFinishInfo();
  DING_LOG(INFO) << deps_.name << ": " << info.sample_count << " rows, "
                 << info.episode_return.size() << " episodes with policy version " << versions_[0]
                 << ": " << MetricsLine(metrics);
  WriteIterMetrics(metrics, deps_.name, acting_.train_iter, deps_.metrics.get());
  return absl::OkStatus();
}

}  // namespace ding
