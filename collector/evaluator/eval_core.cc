#include "ding_worker/collector/evaluator/eval_core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"

namespace ding {
namespace {

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Returns the values of an episode by the names of EvalResult::episode_info.
NamedValues NamesOfRun(const FinishedEpisode& episode) {
  NamedValues info = {{kEpisodeReturn, episode.episode_return}};
  for (size_t i = 0; i < episode.component_returns.size(); ++i) {
    info.Set(absl::StrCat("return_", i), episode.component_returns[i]);
  }
  for (const auto& [name, value] : episode.info) {
    if (name != kEpisodeReturn) info.Set(EnvStatisticName(name), value);
  }
  return info;
}

std::vector<std::string> ProblemsOf(const EvalCore::Options& options, const EnvManager* env,
                                    const std::vector<EvalMode*>& policies) {
  const SerialEvaluatorOptions& common = options.common;
  std::vector<std::string> problems = common.problems;
  if (common.eval_freq < 1) {
    problems.push_back(absl::StrCat("eval_freq is ", common.eval_freq, ", expected at least 1"));
  }
  if (common.n_episode < 1) {
    problems.push_back(
        absl::StrCat("n_episode is ", common.n_episode, ", expected at least 1 per env"));
  }
  if (std::isnan(common.stop_value)) problems.push_back("stop_value is NaN, expected a number");
  if (common.max_abnormal < 1) {
    problems.push_back(
        absl::StrCat("max_abnormal is ", common.max_abnormal, ", expected at least 1"));
  }
  if (common.max_episode_steps < 0) {
    problems.push_back(
        absl::StrCat("max_episode_steps is ", common.max_episode_steps, ", expected at least 0"));
  }
  if (env == nullptr) problems.push_back("no env manager");
  if (policies.empty() || std::count(policies.begin(), policies.end(), nullptr) > 0) {
    problems.push_back(options.game ? "no policy for some player" : "no policy");
  }
  const int64_t n_episode = common.n_episode;
  if (env != nullptr && n_episode >= 1 && n_episode < env->env_num()) {
    problems.push_back(absl::StrCat("n_episode is ", n_episode, " for ", env->env_num(),
                                    " envs, expected at least 1 per env"));
  }
  return problems;
}

}  // namespace

EvalResult EvalCore::Outcome::ToResult() const {
  EvalResult result;
  result.stop = stop;
  result.mean_return = score;
  result.envstep_count = envsteps;
  result.abnormal_episode_count = abnormal_episodes;
  result.episode_return = monitor.GetEpisodeReturn();
  result.episode_info = monitor.GetEpisodeInfo();
  return result;
}

std::vector<EvalMode*> PoliciesOf(EvalMode* policy) {
  return policy == nullptr ? std::vector<EvalMode*>() : std::vector<EvalMode*>{policy};
}

absl::StatusOr<std::unique_ptr<EvalCore>> EvalCore::Create(Options options, EnvManager* env,
                                                           std::vector<EvalMode*> policies,
                                                           ComponentDeps deps) {
  if (deps.name.empty()) deps.name = "evaluator";
  DING_RETURN_IF_ERROR(ProblemsToStatus(ProblemsOf(options, env, policies), deps.name));
  auto core = absl::WrapUnique(new EvalCore(std::move(options), std::move(deps)));
  DING_RETURN_IF_ERROR(core->Reset(std::move(policies), env));
  return core;
}

EvalCore::EvalCore(Options options, ComponentDeps deps)
    : options_(std::move(options)), deps_(std::move(deps)), schedule_(options_.common.eval_freq) {}

absl::Status EvalCore::ResetEnv(EnvManager* env) {
  if (env != nullptr) return Use(env, policies());
  return Annotate(env_->Reset(), deps_.name);
}

absl::Status EvalCore::ResetPolicies(std::vector<EvalMode*> policies) {
  if (!policies.empty()) DING_RETURN_IF_ERROR(Use(env_, policies));
  return Annotate(ForgetRecurrentState({}), deps_.name);
}

absl::Status EvalCore::Reset(std::vector<EvalMode*> policies, EnvManager* env) {
  DING_RETURN_IF_ERROR(
      Use(env != nullptr ? env : env_, policies.empty() ? this->policies() : policies));
  if (env == nullptr) DING_RETURN_IF_ERROR(Annotate(env_->Reset(), deps_.name));
  best_score_ = -std::numeric_limits<double>::infinity();
  schedule_ = EvalSchedule(options_.common.eval_freq);
  return Annotate(ForgetRecurrentState({}), deps_.name);
}

absl::Status EvalCore::Use(EnvManager* env, const std::vector<EvalMode*>& policies) {
  std::vector<SpecPtr> outputs;
  for (const EvalMode* policy : policies) {
    if (policy == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(deps_.name, ": no policy for some player"));
    }
    outputs.push_back(policy->output_spec());
  }
  DING_RETURN_IF_ERROR(
      Annotate(CheckPoliciesFitEnv(outputs, options_.game, env->env_spec()), deps_.name));
  absl::StatusOr<BatchBuilder> obs =
      BatchBuilder::Create(env->env_spec().observation, env->env_num());
  if (!obs.ok()) return Annotate(obs.status(), deps_.name);
  std::vector<Player> players;
  for (EvalMode* const policy : policies) {
    absl::StatusOr<BatchBuilder> output =
        BatchBuilder::Create(policy->output_spec(), env->env_num());
    if (!output.ok()) return Annotate(output.status(), deps_.name);
    const int player = static_cast<int>(players.size());
    players.push_back({policy, *std::move(output), PlayerSpec(env->env_spec(), player).observation,
                       FirstObsField(env->env_spec(), player), PlayerActs(), std::nullopt});
  }
  if (env->closed()) DING_RETURN_IF_ERROR(Annotate(env->Launch(), deps_.name));
  env_ = env;
  players_ = std::move(players);
  obs_ = *std::move(obs);
  action_columns_.resize(players_.size());
  return absl::OkStatus();
}

std::vector<EvalMode*> EvalCore::policies() const {
  std::vector<EvalMode*> policies;
  for (const Player& player : players_) policies.push_back(player.policy);
  return policies;
}

absl::Span<const int> EvalCore::SeatsOf(int player, absl::Span<const int> env_ids) {
  return GameSeats(player, player_num(), env_ids, &seats_);
}

absl::Status EvalCore::ForgetRecurrentState(absl::Span<const int> env_ids) {
  for (int i = 0; i < player_num(); ++i) {
    const absl::Span<const int> seats = SeatsOf(i, env_ids);
    DING_RETURN_IF_ERROR(CallPolicy([&] { return players_[i].policy->Reset(seats); }));
  }
  return absl::OkStatus();
}

absl::StatusOr<EvalCore::Outcome> EvalCore::Eval(const EvalOptions& options, EvalVideos* videos) {
  const Timer timer(deps_.clock);
  absl::StatusOr<VectorEvalMonitor> monitor = VectorEvalMonitor::Create(
      env_->env_num(), options.n_episode.value_or(options_.common.n_episode));
  if (!monitor.ok()) return Annotate(monitor.status(), deps_.name);
  const size_t env_num = static_cast<size_t>(env_->env_num());
  Run run;
  run.monitor = &*monitor;
  run.videos = videos;
  run.abnormal.resize(env_num);
  run.asked.resize(env_num);
  run.episodes.resize(env_num);
  if (videos != nullptr) {
    env_->set_on_episode_end(
        [this, &run](int env_id) { run.last_pictures.Update(TakePicture(env_id, &run)); });
  }
  const absl::Cleanup no_more_pictures = [this, videos] {
    if (videos != nullptr) env_->set_on_episode_end(nullptr);
  };
  const absl::Status played = CallUser("the env manager", [&]() -> absl::Status {
    DING_RETURN_IF_ERROR(env_->Reset());
    DING_RETURN_IF_ERROR(ForgetRecurrentState({}));
    return Play(options, &run);
  });
  DING_RETURN_IF_ERROR(Annotate(played, deps_.name));
  Outcome outcome{*std::move(monitor), run.envsteps, run.abnormal_episodes};
  if (options_.score) {
    const absl::StatusOr<double> score = CallUser(
        "score()", [&]() -> absl::StatusOr<double> { return options_.score(outcome.monitor); });
    if (!score.ok()) return Annotate(score.status(), deps_.name);
    outcome.score = *score;
  } else {
    outcome.score = Mean(outcome.monitor.GetEpisodeReturn());
  }
  outcome.stop = outcome.score >= options_.common.stop_value && options.train_iter > 0;
  Log(options, outcome, timer.Seconds());
  DING_RETURN_IF_ERROR(NoteBest(options, outcome.score));
  if (outcome.stop) {
    DING_LOG(INFO) << deps_.name << ": " << (options_.score ? "score " : "mean return ")
                   << outcome.score << " has reached stop_value " << options_.common.stop_value;
  }
  return outcome;
}

absl::Status EvalCore::CheckRender() {
  return Annotate(env_->Render(0).status(),
                  absl::StrCat(deps_.name,
                               ": render_freq asks for videos, but env 0 cannot be rendered (leave "
                               "render out for a run without videos)"));
}

absl::Status EvalCore::Play(const EvalOptions& options, Run* run) {
  while (!run->monitor->is_finished()) {
    if (options.cancelled && options.cancelled()) {
      return absl::CancelledError(absl::StrCat("the evaluation was cancelled after ",
                                               run->monitor->current_episode(), " of ",
                                               run->monitor->n_episode(), " episodes"));
    }
    DING_RETURN_IF_ERROR(StepEnvs(options, run));
  }
  return absl::OkStatus();
}

absl::Status EvalCore::StepEnvs(const EvalOptions& options, Run* run) {
  const ReadyObs playing = Playing(env_->ready_obs(), *run->monitor);
  const bool waiting = std::count(run->asked.begin(), run->asked.end(), true) > 0;
  if (playing.env_ids.empty() && !waiting) {
    const auto plays = [&](int env_id) { return !run->monitor->is_full(env_id); };
    DING_RETURN_IF_ERROR(WaitForEnv(*env_, plays, &run->waits));
  } else {
    run->waits = 0;
  }
  if (run->videos != nullptr) DING_RETURN_IF_ERROR(TakePictures(playing, run));
  for (int i = 0; i < player_num(); ++i) DING_RETURN_IF_ERROR(Act(i, playing, options));
  for (const int env_id : playing.env_ids) run->asked[env_id] = true;
  const ColumnsView actions(env_->env_spec().action.get(), action_columns_.data(), 0,
                            static_cast<int64_t>(playing.env_ids.size()));
  DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps, env_->Step(playing.env_ids, actions));
  DING_RETURN_IF_ERROR(run->last_pictures);
  return Account(*timesteps, run);
}

ReadyObs EvalCore::Playing(const ReadyObs& ready, const VectorEvalMonitor& monitor) {
  playing_ids_.clear();
  playing_rows_.clear();
  for (size_t i = 0; i < ready.env_ids.size(); ++i) {
    if (monitor.is_full(ready.env_ids[i])) continue;
    playing_ids_.push_back(ready.env_ids[i]);
    playing_rows_.push_back(static_cast<int64_t>(i));
  }
  if (playing_ids_.size() == ready.env_ids.size()) return ready;
  const MutableColumnsView obs = obs_->view();
  GatherRows(ready.obs, playing_rows_, obs, 0);
  return {playing_ids_, obs.Slice(0, static_cast<int64_t>(playing_ids_.size()))};
}

absl::Status EvalCore::TakePictures(const ReadyObs& playing, Run* run) {
  for (const int env_id : playing.env_ids) DING_RETURN_IF_ERROR(TakePicture(env_id, run));
  return absl::OkStatus();
}

absl::Status EvalCore::TakePicture(int env_id, Run* run) {
  if (run->monitor->is_full(env_id) || run->videos->is_full(env_id)) return absl::OkStatus();
  absl::StatusOr<Image> picture = env_->Render(env_id);
  if (!picture.ok()) {
    return Annotate(picture.status(),
                    absl::StrCat("a video is due, but env ", env_id, " cannot be rendered"));
  }
  return run->videos->AddFrame(env_id, *picture);
}

absl::Status EvalCore::Act(int player, const ReadyObs& playing, const EvalOptions& options) {
  Player& actor = players_[player];
  absl::Span<const int> env_ids = playing.env_ids;
  const bool has_ended = player_num() > 1 && actor.acts.Choose(*env_, player, env_ids);
  if (has_ended) env_ids = actor.acts.env_ids();
  const auto rows = static_cast<int64_t>(env_ids.size());
  const MutableColumnsView output = actor.output.view().Slice(0, rows);
  action_columns_[player] = output.raw_column(0);
  // If no env acts, the step only waits for the answers of others.
  if (!env_ids.empty()) {
    ColumnsView obs = PlayerObs(playing.obs, actor.observation.get(), actor.first_field);
    if (has_ended) {
      if (!actor.obs.has_value()) {
        DING_ASSIGN_OR_RETURN(actor.obs, BatchBuilder::Create(actor.observation, env_->env_num()));
      }
      GatherRows(obs, actor.acts.rows(), actor.obs->view(), 0);
      obs = actor.obs->view().Slice(0, rows);
    }
    const absl::Span<const int> seats = SeatsOf(player, env_ids);
    DING_RETURN_IF_ERROR(CallPolicy([&] {
      return ForwardPolicy(actor.policy, obs, seats, options.policy_settings,
                           options.policy_tensors, output);
    }));
  }
  if (has_ended) {
    action_columns_[player] =
        actor.acts.Spread(action_columns_[player], env_->env_spec().action->row_bytes(player),
                          playing.env_ids.size());
  }
  return absl::OkStatus();
}

absl::Status EvalCore::Account(const Timesteps& timesteps, Run* run) {
  ended_envs_.clear();
  for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
    const int env_id = timesteps.env_ids[i];
    run->asked[env_id] = false;
    if (timesteps.abnormal[i] == 0) {
      AddStep(timesteps, i, run);
      continue;
    }
    run->episodes[env_id] = Episode();
    ended_envs_.push_back(env_id);
    if (run->videos != nullptr) run->videos->DropEpisode(env_id);
    DING_RETURN_IF_ERROR(NoteAbnormal(env_id, CauseOfAbnormal(timesteps, i), run));
  }
  for (const FinishedEpisode& finished : timesteps.finished) {
    DING_RETURN_IF_ERROR(NoteFinished(timesteps, finished, run));
  }
  // The last use of `timesteps`: a reset of envs ends their life.
  DING_RETURN_IF_ERROR(CutEndlessEpisodes(timesteps.env_ids, run));
  if (ended_envs_.empty()) return absl::OkStatus();
  return ForgetRecurrentState(ended_envs_);
}

void EvalCore::AddStep(const Timesteps& timesteps, size_t row, Run* run) const {
  ++run->envsteps;
  Episode& episode = run->episodes[timesteps.env_ids[row]];
  ++episode.steps;
  episode.episode_return += timesteps.reward[row];
  const size_t others = players_.size() - 1;
  episode.other_returns.resize(others);
  for (size_t i = 0; i < others; ++i) {
    episode.other_returns[i] += timesteps.other_rewards[row * others + i];
  }
}

absl::Status EvalCore::NoteFinished(const Timesteps& timesteps, const FinishedEpisode& finished,
                                    Run* run) {
  const int env_id = timesteps.env_ids[finished.row];
  const NamedValues info = NamesOfRun(finished);
  DING_RETURN_IF_ERROR(
      run->monitor->Update(env_id, finished.episode_return, info, finished.other_returns));
  if (run->videos != nullptr) {
    DING_RETURN_IF_ERROR(run->videos->EndEpisode(env_id, finished.episode_return));
  }
  run->abnormal[env_id] = 0;
  run->episodes[env_id] = Episode();
  ended_envs_.push_back(env_id);
  DING_LOG(VERBOSE) << deps_.name << ": env " << env_id << " finished an episode of "
                    << finished.length << " steps, return " << finished.episode_return << " ("
                    << run->monitor->current_episode() << " of " << run->monitor->n_episode()
                    << ")";
  return absl::OkStatus();
}

int64_t EvalCore::StepLimit() const {
  if (options_.common.max_episode_steps > 0) return options_.common.max_episode_steps;
  return std::max(SerialEvaluatorOptions::kMaxEpisodeSteps, env_->env_spec().max_episode_steps);
}

absl::Status EvalCore::CutEndlessEpisodes(absl::Span<const int> env_ids, Run* run) {
  const int64_t limit = StepLimit();
  std::vector<EnvReset> resets;
  for (const int env_id : env_ids) {
    Episode& episode = run->episodes[env_id];
    if (episode.steps < limit) continue;
    if (!has_cut_) {
      DING_LOG(WARNING)
          << deps_.name << ": an episode of env " << env_id << " is cut after " << limit
          << " steps (policy.eval.evaluator.max_episode_steps), because the env has not ended it. "
             "It counts with its return so far, "
          << episode.episode_return
          << ". An env without an end of its own needs the wrapper time_limit: env { wrapper { "
             "type: \"time_limit\" ... } } (docs/reference/wrappers.md)";
    }
    has_cut_ = true;
    const NamedValues info = {{kEpisodeReturn, episode.episode_return}};
    DING_RETURN_IF_ERROR(run->monitor->Update(env_id, episode.episode_return, info,
                                              std::move(episode.other_returns)));
    if (run->videos != nullptr) {
      DING_RETURN_IF_ERROR(run->videos->EndEpisode(env_id, episode.episode_return));
    }
    run->abnormal[env_id] = 0;
    episode = Episode();
    ended_envs_.push_back(env_id);
    if (!run->monitor->is_full(env_id)) resets.push_back({env_id, std::nullopt});
  }
  return resets.empty() ? absl::OkStatus() : env_->Reset(resets);
}

absl::Status EvalCore::NoteAbnormal(int env_id, const std::string& cause, Run* run) const {
  DING_LOG(WARNING) << deps_.name << ": env " << env_id << ": abnormal step, its episode is dropped"
                    << cause;
  ++run->abnormal_episodes;
  if (++run->abnormal[env_id] < options_.common.max_abnormal) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("env ", env_id, " was abnormal ", run->abnormal[env_id],
                   " times without finishing an episode (max_abnormal ",
                   options_.common.max_abnormal, ")", cause));
}

void EvalCore::Log(const EvalOptions& options, const Outcome& outcome, double seconds) {
  const double episodes = static_cast<double>(outcome.monitor.n_episode());
  const double envsteps = static_cast<double>(outcome.envsteps);
  NamedValues metrics = {
      {"episode_count", episodes},
      {"abnormal_episode_count", static_cast<double>(outcome.abnormal_episodes)},
      {"envstep_count", envsteps},
      {"avg_envstep_per_episode", envsteps / episodes},
      {"evaluate_time", seconds},
      {"avg_envstep_per_sec", Ratio(envsteps, seconds)},
      {"avg_time_per_episode", seconds / episodes},
  };
  AddStatistics("reward", outcome.monitor.GetEpisodeReturn(), &metrics);
  for (int player = 1; player < player_num(); ++player) {
    AddStatistics(absl::StrCat("reward", player), outcome.monitor.GetEpisodeReturn(player),
                  &metrics);
  }
  AddEpisodeInfo(outcome.monitor.GetEpisodeInfo(), outcome.monitor.n_episode(), &metrics);
  if (options_.score) metrics.Set("score", outcome.score);
  DING_LOG_EVENT(INFO, {EventKind::kEvaluation, deps_.name, options.envstep, options.train_iter,
                        outcome.score})
      << deps_.name << " at iteration " << options.train_iter << " (iteration_"
      << options.train_iter << "): " << MetricsLine(metrics);
  WriteMetrics(metrics, deps_.name, options.train_iter, options.envstep, "", deps_.metrics.get());
}

absl::Status EvalCore::NoteBest(const EvalOptions& options, double score) {
  // The comparison is false for NaN, which is never the best.
  if (!(score > best_score_)) return absl::OkStatus();
  DING_RETURN_IF_ERROR(SaveBest(options.save_checkpoint, deps_.name));
  best_score_ = score;
  return absl::OkStatus();
}

absl::Status EvalCore::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteDouble("best_return", best_score_));
  return writer->WriteInt("last_eval_iter", schedule_.last_eval_iter());
}

absl::Status EvalCore::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const double best_return, reader->ReadDouble("best_return"));
  DING_ASSIGN_OR_RETURN(const int64_t last_eval_iter,
                        reader->ReadCount("last_eval_iter", /*least=*/-1));
  best_score_ = best_return;
  schedule_.set_last_eval_iter(last_eval_iter);
  return absl::OkStatus();
}

}  // namespace ding
