#include "ding_worker/collector/sample_serial_collector.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial_common.h"
#include "glog/logging.h"

namespace ding {
namespace {

double Rate(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

std::vector<std::string> SampleSerialCollector::Options::Problems() const {
  std::vector<std::string> problems;
  if (collect_print_freq < 1) {
    problems.push_back(
        absl::StrCat("collect_print_freq is ", collect_print_freq, ", expected at least 1"));
  }
  if (max_abnormal < 1) {
    problems.push_back(absl::StrCat("max_abnormal is ", max_abnormal, ", expected at least 1"));
  }
  return problems;
}

absl::StatusOr<std::unique_ptr<SampleSerialCollector>> SampleSerialCollector::Create(
    Options options, EnvManager* env, CollectMode* policy, ComponentDeps deps) {
  if (deps.name.empty()) deps.name = "collector";
  std::vector<std::string> problems = options.Problems();
  if (env == nullptr) problems.push_back("no env manager");
  if (policy == nullptr) problems.push_back("no policy");
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, deps.name));
  auto collector = absl::WrapUnique(new SampleSerialCollector(options, std::move(deps)));
  DING_RETURN_IF_ERROR(collector->Reset(policy, env));
  return collector;
}

SampleSerialCollector::SampleSerialCollector(Options options, ComponentDeps deps)
    : options_(options), deps_(std::move(deps)) {}

absl::Status SampleSerialCollector::ResetEnv(EnvManager* env) {
  if (env == nullptr) {
    DING_RETURN_IF_ERROR(Annotate(env_->Reset(), deps_.name));
  } else {
    DING_RETURN_IF_ERROR(Use(env, policy_));
  }
  ForgetEpisodes();
  return ForgetRecurrentState();
}

absl::Status SampleSerialCollector::ResetPolicy(CollectMode* policy) {
  if (policy != nullptr) DING_RETURN_IF_ERROR(Use(env_, policy));
  return ForgetRecurrentState();
}

absl::Status SampleSerialCollector::Reset(CollectMode* policy, EnvManager* env) {
  DING_RETURN_IF_ERROR(Use(env != nullptr ? env : env_, policy != nullptr ? policy : policy_));
  if (env == nullptr) DING_RETURN_IF_ERROR(Annotate(env_->Reset(), deps_.name));
  ForgetEpisodes();
  ForgetStatistics();
  return ForgetRecurrentState();
}

absl::Status SampleSerialCollector::Use(EnvManager* env, CollectMode* policy) {
  DING_RETURN_IF_ERROR(
      Annotate(CheckPolicyFitsEnv(*policy->output_spec(), env->env_spec()), deps_.name));
  absl::StatusOr<TrajBuffer> fresh = MakeTrajBuffer(*env, *policy, with_level_seed());
  if (!fresh.ok()) return Annotate(fresh.status(), deps_.name);
  if (env->closed()) DING_RETURN_IF_ERROR(Annotate(env->Launch(), deps_.name));
  env_ = env;
  policy_ = policy;
  attributes_ = policy->attributes();
  UseTrajBuffer(*std::move(fresh));
  return absl::OkStatus();
}

absl::StatusOr<TrajBuffer> SampleSerialCollector::MakeTrajBuffer(const EnvManager& env,
                                                                 const CollectMode& policy,
                                                                 bool with_level_seed) const {
  DING_ASSIGN_OR_RETURN(
      TrajLayout layout,
      TrajLayout::Create(env.env_spec().observation, policy.output_spec(), with_level_seed));
  TrajBuffer::Options options;
  options.env_num = env.env_num();
  options.stream_base = options_.stream_base;
  options.whole_episodes = policy.attributes().traj_len_inf;
  return TrajBuffer(std::move(layout), std::move(options));
}

void SampleSerialCollector::UseTrajBuffer(TrajBuffer fresh) {
  if (traj_.has_value()) {
    if (traj_->Fits(fresh)) return;
    fresh.ContinueAfter(*traj_);
  }
  traj_ = std::move(fresh);
}

void SampleSerialCollector::ForgetEpisodes() {
  env_statistics_.assign(static_cast<size_t>(env_->env_num()), EnvStatistics());
  for (int id = 0; id < env_->env_num(); ++id) traj_->DropEpisode(id);
}

absl::Status SampleSerialCollector::ForgetRecurrentState() {
  return Annotate(CallPolicy([this] { return policy_->Reset({}); }), deps_.name);
}

void SampleSerialCollector::ForgetStatistics() {
  episodes_.clear();
  window_ = Window();
  envstep_ = 0;
  total_episode_count_ = 0;
  total_train_sample_count_ = 0;
  last_log_iter_ = 0;
}

absl::Status SampleSerialCollector::DropEpisodes(absl::Span<const int> env_ids) {
  for (const int env_id : env_ids) {
    if (env_id < 0 || env_id >= env_->env_num()) {
      return absl::InvalidArgumentError(
          absl::StrCat(deps_.name, ": env ", env_id, " is none of the ", env_->env_num(), " envs"));
    }
  }
  for (const int env_id : env_ids) {
    traj_->DropEpisode(env_id);
    env_statistics_[env_id].samples = 0;
  }
  // No envs would mean all of them.
  if (env_ids.empty()) return absl::OkStatus();
  return Annotate(CallPolicy([&] { return policy_->Reset(env_ids); }), deps_.name);
}

absl::StatusOr<int64_t> SampleSerialCollector::Target(const CollectOptions& options) {
  if (!options.target.has_value() && !attributes_.n_sample.has_value()) {
    return absl::InvalidArgumentError(
        "how many rows to collect is neither asked for (CollectOptions::target) nor configured "
        "(the policy's n_sample)");
  }
  const int64_t target = options.target.has_value() ? *options.target : *attributes_.n_sample;
  if (target < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked to collect ", target, " rows, expected at least 1"));
  }
  if (target % env_->env_num() != 0 && warned_targets_.insert(target).second) {
    LOG(WARNING) << deps_.name << ": " << target << " rows are no multiple of the "
                 << env_->env_num() << " envs: each collect "
                 << (options.drop_extra ? "drops the rows that are too many"
                                        : "returns more rows than that");
  }
  return target;
}

absl::Status SampleSerialCollector::PrepareLevelSeeds(const std::vector<int64_t>& level_seeds) {
  const bool with_level_seed = !level_seeds.empty();
  if (with_level_seed && static_cast<int>(level_seeds.size()) != env_->env_num()) {
    return absl::InvalidArgumentError(
        absl::StrCat(level_seeds.size(), " level seeds for ", env_->env_num(), " envs"));
  }
  if (with_level_seed == (traj_->layout().level_seed >= 0)) return absl::OkStatus();
  if (traj_->ready_rows() + traj_->held_rows() > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        with_level_seed ? "level seeds are given" : "no level seeds are given", ", but ",
        traj_->ready_rows() + traj_->held_rows(), " rows of an earlier collect wait for their ",
        "episodes to end, ", with_level_seed ? "without" : "with", " level seeds"));
  }
  DING_ASSIGN_OR_RETURN(TrajBuffer fresh, MakeTrajBuffer(*env_, *policy_, with_level_seed));
  UseTrajBuffer(std::move(fresh));
  return absl::OkStatus();
}

absl::StatusOr<SegmentBatch> SampleSerialCollector::Collect(const CollectOptions& options) {
  const Timer timer(deps_.clock);
  absl::StatusOr<int64_t> target = Target(options);
  if (!target.ok()) return Annotate(target.status(), deps_.name);
  DING_RETURN_IF_ERROR(Annotate(PrepareLevelSeeds(options.level_seeds), deps_.name));
  if (const absl::Status status = Gather(*target, options); !status.ok()) {
    CollectEpisodes(options.record_episodes);
    return Annotate(status, deps_.name);
  }
  const int64_t rows = options.drop_extra ? *target : traj_->ready_rows();
  absl::StatusOr<SegmentBatch> data = traj_->Take(rows, env_->ready_obs());
  if (!data.ok()) return Annotate(data.status(), deps_.name);
  if (attributes_.on_policy && traj_->held_rows() > 0) traj_->DropHeldRows();
  CountSamples(data->segments);
  CollectEpisodes(options.record_episodes);
  DING_RETURN_IF_ERROR(Annotate(CallPolicy([&]() -> absl::Status {
                                  DING_ASSIGN_OR_RETURN(*data,
                                                        policy_->GetTrainSample(*std::move(data)));
                                  return absl::OkStatus();
                                }),
                                deps_.name));
  window_.seconds += timer.Seconds();
  if (options.record_episodes) {
    Log(options.train_iter);
  } else {
    window_ = Window();
  }
  return data;
}

absl::Status SampleSerialCollector::Gather(int64_t target, const CollectOptions& options) {
  DING_RETURN_IF_ERROR(
      traj_->Reserve(std::max<int64_t>(0, target - traj_->ready_rows()) + env_->env_num()));
  while (traj_->ready_rows() < target) {
    absl::Status status = StepEnvs(options);
    if (status.ok()) continue;
    for (int id = 0; id < env_->env_num(); ++id) {
      if (traj_->under_way(id)) traj_->DropEpisode(id);
    }
    return status;
  }
  return absl::OkStatus();
}

absl::Status SampleSerialCollector::StepEnvs(const CollectOptions& options) {
  const ReadyObs ready = env_->ready_obs();
  if (ready.env_ids.empty() && !OthersAtWork(*env_, ready)) return NoEnvReady(*env_);
  DING_ASSIGN_OR_RETURN(const MutableColumnsView output,
                        traj_->Append(ready, options.train_iter, options.level_seeds));
  if (!ready.env_ids.empty()) {
    DING_RETURN_IF_ERROR(CallPolicy([&] {
      return policy_->Forward(ready.obs, ready.env_ids, options.policy_settings, output);
    }));
  }
  DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps, env_->Step(ready.env_ids, output));
  DING_RETURN_IF_ERROR(traj_->Store(*timesteps));
  return Account(*timesteps);
}

absl::Status SampleSerialCollector::Account(const Timesteps& timesteps) {
  absl::Status status;
  int64_t steps = 0;
  ended_envs_.clear();
  for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
    if (timesteps.abnormal[i] == 0) {
      ++steps;
      continue;
    }
    ended_envs_.push_back(timesteps.env_ids[i]);
    status.Update(NoteAbnormal(timesteps.env_ids[i], CauseOfAbnormal(timesteps, i)));
  }
  for (const FinishedEpisode& finished : timesteps.finished) {
    const int env_id = timesteps.env_ids[finished.row];
    EnvStatistics& statistics = env_statistics_[env_id];
    statistics.finished.push_back({finished.episode_return, finished.length, statistics.samples,
                                   traj_->next_step()[env_id] - 1});
    statistics.samples = 0;
    statistics.abnormal = 0;
    ended_envs_.push_back(env_id);
  }
  envstep_ += steps;
  window_.envsteps += steps;
  if (!ended_envs_.empty()) {
    status.Update(CallPolicy([this] { return policy_->Reset(ended_envs_); }));
  }
  return status;
}

absl::Status SampleSerialCollector::NoteAbnormal(int env_id, const std::string& cause) {
  EnvStatistics& statistics = env_statistics_[env_id];
  statistics.samples = 0;
  ++statistics.abnormal;
  LOG(WARNING) << deps_.name << ": env " << env_id << ": abnormal step, its episode is dropped"
               << cause;
  if (statistics.abnormal < options_.max_abnormal) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "env ", env_id, " was abnormal ", statistics.abnormal,
      " times since it last gave a row (max_abnormal ", options_.max_abnormal, ")", cause));
}

void SampleSerialCollector::CountSamples(const std::vector<Segment>& segments) {
  for (const Segment& segment : segments) {
    EnvStatistics& statistics = env_statistics_[segment.stream - options_.stream_base];
    statistics.abnormal = 0;
    int64_t* samples = &statistics.samples;
    // Segments of an env come in the order of its episodes.
    for (Episode& episode : statistics.finished) {
      if (episode.last_step < segment.first_step) continue;
      samples = &episode.samples;
      break;
    }
    *samples += segment.length;
    total_train_sample_count_ += segment.length;
    window_.samples += segment.length;
  }
}

void SampleSerialCollector::CollectEpisodes(bool record) {
  for (EnvStatistics& statistics : env_statistics_) {
    if (statistics.finished.empty()) continue;
    const int64_t count = static_cast<int64_t>(statistics.finished.size());
    total_episode_count_ += count;
    window_.episodes += count;
    episodes_.insert(episodes_.end(), statistics.finished.begin(), statistics.finished.end());
    statistics.finished.clear();
  }
  if (!record) episodes_.clear();
}

void SampleSerialCollector::Log(int64_t train_iter) {
  if (train_iter - last_log_iter_ < options_.collect_print_freq || episodes_.empty()) return;
  last_log_iter_ = train_iter;
  const double count = static_cast<double>(episodes_.size());
  double envsteps = 0;
  double samples = 0;
  std::vector<double> returns;
  for (const Episode& episode : episodes_) {
    envsteps += static_cast<double>(episode.length);
    samples += static_cast<double>(episode.samples);
    returns.push_back(episode.episode_return);
  }
  NamedValues metrics = {
      {"episode_count", count},
      {"envstep_count", envsteps},
      {"train_sample_count", samples},
      {"avg_envstep_per_episode", envsteps / count},
      {"avg_sample_per_episode", samples / count},
      {"avg_envstep_per_sec", Rate(window_.envsteps, window_.seconds)},
      {"avg_train_sample_per_sec", Rate(window_.samples, window_.seconds)},
      {"avg_episode_per_sec", Rate(window_.episodes, window_.seconds)},
  };
  AddStatistics("reward", returns, &metrics);
  metrics.Set("total_envstep_count", static_cast<double>(envstep_));
  metrics.Set("total_train_sample_count", static_cast<double>(total_train_sample_count_));
  metrics.Set("total_episode_count", static_cast<double>(total_episode_count_));
  episodes_.clear();
  window_ = Window();
  LOG(INFO) << deps_.name << " at iteration " << train_iter << ": " << MetricsLine(metrics);
  WriteIterMetrics(metrics, deps_.name, train_iter, deps_.metrics.get());
  WriteStepMetrics(metrics, deps_.name, envstep_, "total_envstep_count", deps_.metrics.get());
}

absl::Status SampleSerialCollector::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("envstep", envstep_));
  DING_RETURN_IF_ERROR(writer->WriteInt("total_episode_count", total_episode_count_));
  DING_RETURN_IF_ERROR(writer->WriteInt("total_train_sample_count", total_train_sample_count_));
  DING_RETURN_IF_ERROR(writer->WriteInt("last_log_iter", last_log_iter_));
  DING_RETURN_IF_ERROR(writer->WriteInt("level_seed", traj_->layout().level_seed >= 0 ? 1 : 0));
  std::vector<int64_t> samples;
  std::vector<int64_t> abnormal;
  for (const EnvStatistics& statistics : env_statistics_) {
    samples.push_back(statistics.samples);
    abnormal.push_back(statistics.abnormal);
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("env_samples", samples));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("env_abnormal", abnormal));
  std::vector<double> returns;
  std::vector<int64_t> lengths;
  samples.clear();
  for (const Episode& episode : episodes_) {
    returns.push_back(episode.episode_return);
    lengths.push_back(episode.length);
    samples.push_back(episode.samples);
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>("episode_return", returns));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("episode_length", lengths));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("episode_samples", samples));
  ScopedStateWriter scoped(writer, "traj");
  return traj_->SaveState(&scoped);
}

absl::Status SampleSerialCollector::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t envstep, reader->ReadInt("envstep"));
  DING_ASSIGN_OR_RETURN(const int64_t episode_count, reader->ReadInt("total_episode_count"));
  DING_ASSIGN_OR_RETURN(const int64_t sample_count, reader->ReadInt("total_train_sample_count"));
  DING_ASSIGN_OR_RETURN(const int64_t last_log_iter, reader->ReadInt("last_log_iter"));
  DING_ASSIGN_OR_RETURN(const int64_t level_seed, reader->ReadInt("level_seed"));
  std::vector<int64_t> samples(env_statistics_.size());
  std::vector<int64_t> abnormal(env_statistics_.size());
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("env_samples", absl::MakeSpan(samples)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("env_abnormal", absl::MakeSpan(abnormal)));
  DING_ASSIGN_OR_RETURN(const TensorInfo episodes, reader->Info("episode_return"));
  const size_t episode_num = static_cast<size_t>(NumElements(episodes.shape));
  std::vector<double> returns(episode_num);
  std::vector<int64_t> lengths(episode_num);
  std::vector<int64_t> episode_samples(episode_num);
  DING_RETURN_IF_ERROR(reader->ReadSpan<double>("episode_return", absl::MakeSpan(returns)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("episode_length", absl::MakeSpan(lengths)));
  DING_RETURN_IF_ERROR(
      reader->ReadSpan<int64_t>("episode_samples", absl::MakeSpan(episode_samples)));
  DING_ASSIGN_OR_RETURN(TrajBuffer traj, MakeTrajBuffer(*env_, *policy_, level_seed != 0));
  ScopedStateReader scoped(reader, "traj");
  DING_RETURN_IF_ERROR(traj.LoadState(&scoped));

  traj_ = std::move(traj);
  ForgetStatistics();
  envstep_ = envstep;
  total_episode_count_ = episode_count;
  total_train_sample_count_ = sample_count;
  last_log_iter_ = last_log_iter;
  for (size_t i = 0; i < env_statistics_.size(); ++i) {
    env_statistics_[i] = EnvStatistics{samples[i], abnormal[i], {}};
  }
  for (size_t i = 0; i < episode_num; ++i) {
    episodes_.push_back({returns[i], lengths[i], episode_samples[i], 0});
  }
  return absl::OkStatus();
}

}  // namespace ding
