#include "ding_worker/collector/interaction_serial_evaluator.h"

#include <cmath>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial_common.h"
#include "glog/logging.h"

namespace ding {
namespace {

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

}  // namespace

std::vector<std::string> InteractionSerialEvaluator::Options::Problems() const {
  std::vector<std::string> problems;
  if (eval_freq < 1) {
    problems.push_back(absl::StrCat("eval_freq is ", eval_freq, ", expected at least 1"));
  }
  if (n_episode < 1) {
    problems.push_back(absl::StrCat("n_episode is ", n_episode, ", expected at least 1 per env"));
  }
  if (std::isnan(stop_value)) problems.push_back("stop_value is NaN, expected a number");
  if (max_abnormal < 1) {
    problems.push_back(absl::StrCat("max_abnormal is ", max_abnormal, ", expected at least 1"));
  }
  return problems;
}

absl::StatusOr<std::unique_ptr<InteractionSerialEvaluator>> InteractionSerialEvaluator::Create(
    Options options, EnvManager* env, EvalMode* policy, ComponentDeps deps) {
  if (deps.name.empty()) deps.name = "evaluator";
  std::vector<std::string> problems = options.Problems();
  if (env == nullptr) problems.push_back("no env manager");
  if (policy == nullptr) problems.push_back("no policy");
  if (env != nullptr && options.n_episode >= 1 && options.n_episode < env->env_num()) {
    problems.push_back(absl::StrCat("n_episode is ", options.n_episode, " for ", env->env_num(),
                                    " envs, expected at least 1 per env"));
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, deps.name));
  auto evaluator = absl::WrapUnique(new InteractionSerialEvaluator(options, std::move(deps)));
  DING_RETURN_IF_ERROR(evaluator->Reset(policy, env));
  return evaluator;
}

InteractionSerialEvaluator::InteractionSerialEvaluator(Options options, ComponentDeps deps)
    : options_(options), deps_(std::move(deps)) {}

absl::Status InteractionSerialEvaluator::ResetEnv(EnvManager* env) {
  if (env != nullptr) return Use(env, policy_);
  return Annotate(env_->Reset(), deps_.name);
}

absl::Status InteractionSerialEvaluator::ResetPolicy(EvalMode* policy) {
  if (policy != nullptr) DING_RETURN_IF_ERROR(Use(env_, policy));
  return ForgetRecurrentState();
}

absl::Status InteractionSerialEvaluator::Reset(EvalMode* policy, EnvManager* env) {
  DING_RETURN_IF_ERROR(Use(env != nullptr ? env : env_, policy != nullptr ? policy : policy_));
  if (env == nullptr) DING_RETURN_IF_ERROR(Annotate(env_->Reset(), deps_.name));
  best_return_ = -std::numeric_limits<double>::infinity();
  last_eval_iter_ = -1;
  return ForgetRecurrentState();
}

absl::Status InteractionSerialEvaluator::Use(EnvManager* env, EvalMode* policy) {
  DING_RETURN_IF_ERROR(Annotate(
      CheckPoliciesFitEnv({policy->output_spec()}, /*game=*/false, env->env_spec()), deps_.name));
  absl::StatusOr<BatchBuilder> obs =
      BatchBuilder::Create(env->env_spec().observation, env->env_num());
  if (!obs.ok()) return Annotate(obs.status(), deps_.name);
  absl::StatusOr<BatchBuilder> output = BatchBuilder::Create(policy->output_spec(), env->env_num());
  if (!output.ok()) return Annotate(output.status(), deps_.name);
  if (env->closed()) DING_RETURN_IF_ERROR(Annotate(env->Launch(), deps_.name));
  rows_ = Rows{*std::move(obs), *std::move(output)};
  env_ = env;
  policy_ = policy;
  return absl::OkStatus();
}

absl::Status InteractionSerialEvaluator::ForgetRecurrentState() {
  return Annotate(CallPolicy([this] { return policy_->Reset({}); }), deps_.name);
}

bool InteractionSerialEvaluator::ShouldEval(int64_t train_iter) {
  if (train_iter == last_eval_iter_) return false;
  if (train_iter - last_eval_iter_ < options_.eval_freq && train_iter != 0) return false;
  last_eval_iter_ = train_iter;
  return true;
}

absl::StatusOr<EvalResult> InteractionSerialEvaluator::Eval(const EvalOptions& options) {
  const Timer timer(deps_.clock);
  absl::StatusOr<VectorEvalMonitor> monitor =
      VectorEvalMonitor::Create(env_->env_num(), options.n_episode.value_or(options_.n_episode));
  if (!monitor.ok()) return Annotate(monitor.status(), deps_.name);
  Run run{*std::move(monitor), 0, std::vector<int>(static_cast<size_t>(env_->env_num()), 0)};
  DING_RETURN_IF_ERROR(Annotate(env_->Reset(), deps_.name));
  DING_RETURN_IF_ERROR(ForgetRecurrentState());
  DING_RETURN_IF_ERROR(Annotate(Play(options.policy_settings, &run), deps_.name));
  EvalResult result;
  result.episode_return = run.monitor.GetEpisodeReturn();
  result.episode_info = run.monitor.GetEpisodeInfo();
  for (const double value : result.episode_return) result.mean_return += value;
  result.mean_return /= static_cast<double>(result.episode_return.size());
  result.stop = result.mean_return >= options_.stop_value && options.train_iter > 0;
  Log(options, run, timer.Seconds(), result);
  DING_RETURN_IF_ERROR(NoteBest(options, result.mean_return));
  if (result.stop) {
    LOG(INFO) << deps_.name << ": mean return " << result.mean_return << " has reached stop_value "
              << options_.stop_value;
  }
  return result;
}

absl::Status InteractionSerialEvaluator::Play(const NamedValues& settings, Run* run) {
  while (!run->monitor.is_finished()) DING_RETURN_IF_ERROR(StepEnvs(settings, run));
  return absl::OkStatus();
}

absl::Status InteractionSerialEvaluator::StepEnvs(const NamedValues& settings, Run* run) {
  const ReadyObs ready = Playing(env_->ready_obs(), run->monitor);
  if (ready.env_ids.empty()) return NoEnvReady(*env_);
  const MutableColumnsView output =
      rows_->output.view().Slice(0, static_cast<int64_t>(ready.env_ids.size()));
  DING_RETURN_IF_ERROR(
      CallPolicy([&] { return policy_->Forward(ready.obs, ready.env_ids, settings, output); }));
  DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps, env_->Step(ready.env_ids, output));
  return Account(*timesteps, run);
}

ReadyObs InteractionSerialEvaluator::Playing(const ReadyObs& ready,
                                             const VectorEvalMonitor& monitor) {
  playing_ids_.clear();
  playing_rows_.clear();
  for (size_t i = 0; i < ready.env_ids.size(); ++i) {
    if (monitor.is_full(ready.env_ids[i])) continue;
    playing_ids_.push_back(ready.env_ids[i]);
    playing_rows_.push_back(static_cast<int64_t>(i));
  }
  if (playing_ids_.size() == ready.env_ids.size()) return ready;
  const MutableColumnsView obs = rows_->obs.view();
  GatherRows(ready.obs, playing_rows_, obs, 0);
  return {playing_ids_, obs.Slice(0, static_cast<int64_t>(playing_ids_.size()))};
}

absl::Status InteractionSerialEvaluator::Account(const Timesteps& timesteps, Run* run) {
  ended_envs_.clear();
  for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
    if (timesteps.abnormal[i] == 0) {
      ++run->envsteps;
      continue;
    }
    ended_envs_.push_back(timesteps.env_ids[i]);
    DING_RETURN_IF_ERROR(NoteAbnormal(timesteps.env_ids[i], run));
  }
  for (const FinishedEpisode& finished : timesteps.finished) {
    const int env_id = timesteps.env_ids[finished.row];
    NamedValues info = finished.info;
    info.Set("eval_episode_return", finished.episode_return);
    DING_RETURN_IF_ERROR(run->monitor.Update(env_id, finished.episode_return, info));
    run->abnormal[env_id] = 0;
    ended_envs_.push_back(env_id);
    LOG(INFO) << deps_.name << ": env " << env_id << " finished an episode of " << finished.length
              << " steps, return " << finished.episode_return << " ("
              << run->monitor.current_episode() << " of " << run->monitor.n_episode() << ")";
  }
  if (ended_envs_.empty()) return absl::OkStatus();
  return CallPolicy([this] { return policy_->Reset(ended_envs_); });
}

absl::Status InteractionSerialEvaluator::NoteAbnormal(int env_id, Run* run) const {
  LOG(WARNING) << deps_.name << ": env " << env_id << ": abnormal step, its episode is dropped";
  if (++run->abnormal[env_id] < options_.max_abnormal) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "env ", env_id, " was abnormal ", run->abnormal[env_id],
      " times without finishing an episode (max_abnormal ", options_.max_abnormal, ")"));
}

void InteractionSerialEvaluator::Log(const EvalOptions& options, const Run& run, double seconds,
                                     const EvalResult& result) {
  const double episodes = static_cast<double>(result.episode_return.size());
  const double envsteps = static_cast<double>(run.envsteps);
  NamedValues metrics = {
      {"episode_count", episodes},
      {"envstep_count", envsteps},
      {"avg_envstep_per_episode", envsteps / episodes},
      {"evaluate_time", seconds},
      {"avg_envstep_per_sec", Ratio(envsteps, seconds)},
      {"avg_time_per_episode", seconds / episodes},
  };
  AddStatistics("reward", result.episode_return, &metrics);
  for (const auto& [name, values] : result.episode_info) {
    double sum = 0;
    for (const double value : values) sum += value;
    metrics.Set(absl::StrCat(name, "_mean"), sum / static_cast<double>(values.size()));
  }
  LOG(INFO) << deps_.name << " at iteration " << options.train_iter << " (iteration_"
            << options.train_iter << "): " << MetricsLine(metrics);
  WriteIterMetrics(metrics, deps_.name, options.train_iter, deps_.metrics.get());
  WriteStepMetrics(metrics, deps_.name, options.envstep, "", deps_.metrics.get());
}

absl::Status InteractionSerialEvaluator::NoteBest(const EvalOptions& options, double mean_return) {
  // False for NaN, which is never the best.
  if (!(mean_return > best_return_)) return absl::OkStatus();
  if (options.save_checkpoint) {
    DING_RETURN_IF_ERROR(Annotate(options.save_checkpoint("ckpt_best"),
                                  absl::StrCat(deps_.name, ": saving ckpt_best")));
  }
  best_return_ = mean_return;
  return absl::OkStatus();
}

absl::Status InteractionSerialEvaluator::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteDouble("best_return", best_return_));
  return writer->WriteInt("last_eval_iter", last_eval_iter_);
}

absl::Status InteractionSerialEvaluator::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const double best_return, reader->ReadDouble("best_return"));
  DING_ASSIGN_OR_RETURN(const int64_t last_eval_iter, reader->ReadInt("last_eval_iter"));
  best_return_ = best_return;
  last_eval_iter_ = last_eval_iter;
  return absl::OkStatus();
}

}  // namespace ding
