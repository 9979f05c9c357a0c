#include "ding_worker/collector/core/collect_statistics.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"

namespace ding {
namespace {

constexpr char kAbnormalEpisodes[] = "abnormal_episodes";

double Rate(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

CollectStatistics::CollectStatistics(Options options) : options_(options) {
  ForgetEpisodes(options.env_num);
}

void CollectStatistics::ForgetEpisodes(int env_num) {
  options_.env_num = env_num;
  envs_.assign(static_cast<size_t>(env_num), EnvStatistics());
  finished_num_ = 0;
}

absl::Status CollectStatistics::Account(const Timesteps& timesteps,
                                        absl::Span<const int64_t> next_step,
                                        const ComponentDeps& deps, std::vector<int>* ended_envs) {
  absl::Status status;
  int64_t steps = 0;
  ended_envs->clear();
  for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
    if (timesteps.abnormal[i] == 0) {
      ++steps;
      continue;
    }
    ended_envs->push_back(timesteps.env_ids[i]);
    status.Update(NoteAbnormal(timesteps.env_ids[i], CauseOfAbnormal(timesteps, i), deps));
  }
  for (const FinishedEpisode& finished : timesteps.finished) {
    const int env_id = timesteps.env_ids[finished.row];
    EnvStatistics& env = envs_[env_id];
    CollectedEpisode& episode = env.finished.emplace_back();
    ++finished_num_;
    episode.env_id = env_id;
    episode.returns.push_back(finished.episode_return);
    for (const double value : finished.other_returns) episode.returns.push_back(value);
    episode.length = finished.length;
    episode.samples = std::exchange(env.samples, 0);
    episode.last_step = next_step[env_id] - 1;
    if (!finished.info.empty()) episode.info = finished.info;
    episode.component_returns = finished.component_returns;
    env.abnormal = 0;
    ended_envs->push_back(env_id);
  }
  envstep_ += steps;
  window_.envsteps += steps;
  return status;
}

absl::Status CollectStatistics::NoteAbnormal(int env_id, const std::string& cause,
                                             const ComponentDeps& deps) {
  EnvStatistics& env = envs_[env_id];
  env.samples = 0;
  ++env.abnormal;
  ++abnormal_episodes_;
  DING_LOG(WARNING) << deps.name << ": env " << env_id << ": abnormal step, its episode is dropped"
                    << cause;
  if (env.abnormal < options_.max_abnormal) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("env ", env_id, " was abnormal ", env.abnormal,
                                                   " times since it last gave a row (max_abnormal ",
                                                   options_.max_abnormal, ")", cause));
}

void CollectStatistics::CountSamples(const std::vector<Segment>& segments,
                                     absl::Span<const int64_t> samples_of_segments) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const int64_t count = samples_of_segments[i];
    const int64_t seat = segment.stream - options_.stream_base;
    // Most envs have one player; a division costs as much as the rest of this loop.
    EnvStatistics& env = envs_[options_.players == 1 ? seat : seat / options_.players];
    env.abnormal = 0;
    int64_t* samples = &env.samples;
    // The segments of an env are in the order of its episodes.
    for (CollectedEpisode& episode : env.finished) {
      if (episode.last_step < segment.first_step) continue;
      samples = &episode.samples;
      break;
    }
    *samples += count;
    total_train_sample_count_ += count;
    window_.samples += count;
  }
}

std::vector<CollectedEpisode> CollectStatistics::TakeFinished(bool record) {
  std::vector<CollectedEpisode> finished;
  if (!record) {
    episodes_.clear();
    abnormal_episodes_ = 0;
  }
  if (finished_num_ == 0) return finished;
  finished.reserve(finished_num_);
  for (EnvStatistics& env : envs_) {
    for (CollectedEpisode& episode : env.finished) {
      if (record) {
        episodes_.push_back({episode.returns, episode.length, episode.samples});
        recent_returns_.Add(episode.returns.front());
      }
      finished.push_back(std::move(episode));
    }
    env.finished.clear();
  }
  total_episode_count_ += static_cast<int64_t>(finished_num_);
  window_.episodes += static_cast<int64_t>(finished_num_);
  finished_num_ = 0;
  return finished;
}

void CollectStatistics::FinishCollect(bool record, double seconds, int64_t train_iter,
                                      const NamedValues& settings, const ComponentDeps& deps) {
  window_.seconds += seconds;
  total_seconds_ += seconds;
  last_iter_ = train_iter;
  if (!record) {
    window_ = Window();
    return;
  }
  const int64_t next_log_iter = CheckedSum(last_log_iter_, options_.collect_print_freq)
                                    .value_or(std::numeric_limits<int64_t>::max());
  if (train_iter >= next_log_iter && !episodes_.empty()) Log(train_iter, settings, deps);
}

void CollectStatistics::LogRest(const ComponentDeps& deps) {
  if (!episodes_.empty()) Log(last_iter_, {}, deps);
}

void CollectStatistics::Log(int64_t train_iter, const NamedValues& settings,
                            const ComponentDeps& deps) {
  last_log_iter_ = train_iter;
  NamedValues metrics = Metrics();
  for (const auto& [name, value] : settings) {
    // A setting of a policy never replaces a metric.
    metrics.Set(metrics.Get(name).has_value() ? absl::StrCat("setting/", name) : name, value);
  }
  episodes_.clear();
  abnormal_episodes_ = 0;
  window_ = Window();
  DING_LOG(INFO) << deps.name << " at iteration " << train_iter << ": " << MetricsLine(metrics);
  WriteMetrics(metrics, deps.name, train_iter, envstep_, "total_envstep_count", deps.metrics.get());
}

NamedValues CollectStatistics::Metrics() const {
  const double count = static_cast<double>(episodes_.size());
  double envsteps = 0;
  double samples = 0;
  for (const LoggedEpisode& episode : episodes_) {
    envsteps += static_cast<double>(episode.length);
    samples += static_cast<double>(episode.samples);
  }
  NamedValues metrics = {{"episode_count", count},
                         {"abnormal_episode_count", static_cast<double>(abnormal_episodes_)},
                         {"envstep_count", envsteps}};
  if (options_.log_samples) metrics.Set("train_sample_count", samples);
  metrics.Set("avg_envstep_per_episode", envsteps / count);
  if (options_.log_samples) metrics.Set("avg_sample_per_episode", samples / count);
  metrics.Set("avg_envstep_per_sec", Rate(window_.envsteps, window_.seconds));
  if (options_.log_samples) {
    metrics.Set("avg_train_sample_per_sec", Rate(window_.samples, window_.seconds));
  }
  metrics.Set("avg_episode_per_sec", Rate(window_.episodes, window_.seconds));
  if (!options_.log_samples) metrics.Set("collect_time", window_.seconds);
  AddReturns(&metrics);
  metrics.Set("total_envstep_count", static_cast<double>(envstep_));
  if (options_.log_samples) {
    metrics.Set("total_train_sample_count", static_cast<double>(total_train_sample_count_));
  }
  metrics.Set("total_episode_count", static_cast<double>(total_episode_count_));
  if (!options_.log_samples) metrics.Set("total_duration", total_seconds_);
  return metrics;
}

void CollectStatistics::AddReturns(NamedValues* metrics) const {
  std::vector<double> returns(episodes_.size());
  for (int player = 0; player < options_.players; ++player) {
    for (size_t i = 0; i < episodes_.size(); ++i) returns[i] = episodes_[i].returns[player];
    AddStatistics(options_.players == 1 ? "reward" : absl::StrCat("reward", player), returns,
                  metrics);
  }
}

absl::Status CollectStatistics::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt("envstep", envstep_));
  DING_RETURN_IF_ERROR(writer->WriteInt("total_episode_count", total_episode_count_));
  DING_RETURN_IF_ERROR(writer->WriteInt("total_train_sample_count", total_train_sample_count_));
  DING_RETURN_IF_ERROR(writer->WriteInt("last_log_iter", last_log_iter_));
  DING_RETURN_IF_ERROR(writer->WriteInt(kAbnormalEpisodes, abnormal_episodes_));
  std::vector<int64_t> samples;
  std::vector<int64_t> abnormal;
  for (const EnvStatistics& env : envs_) {
    samples.push_back(env.samples);
    abnormal.push_back(env.abnormal);
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("env_samples", samples));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("env_abnormal", abnormal));
  std::vector<double> returns;
  std::vector<int64_t> lengths;
  samples.clear();
  for (const LoggedEpisode& episode : episodes_) {
    returns.insert(returns.end(), episode.returns.begin(), episode.returns.end());
    lengths.push_back(episode.length);
    samples.push_back(episode.samples);
  }
  DING_RETURN_IF_ERROR(writer->WriteSpan<double>("episode_return", returns));
  DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("episode_length", lengths));
  return writer->WriteSpan<int64_t>("episode_samples", samples);
}

absl::StatusOr<CollectStatistics> CollectStatistics::LoadState(StateReader* reader) const {
  CollectStatistics loaded(options_);
  DING_ASSIGN_OR_RETURN(loaded.envstep_, reader->ReadCount("envstep"));
  DING_ASSIGN_OR_RETURN(loaded.total_episode_count_, reader->ReadCount("total_episode_count"));
  DING_ASSIGN_OR_RETURN(loaded.total_train_sample_count_,
                        reader->ReadCount("total_train_sample_count"));
  DING_ASSIGN_OR_RETURN(loaded.last_log_iter_, reader->ReadCount("last_log_iter", /*least=*/-1));
  if (reader->Info(kAbnormalEpisodes).ok()) {  // Earlier versions did not count them.
    DING_ASSIGN_OR_RETURN(loaded.abnormal_episodes_, reader->ReadCount(kAbnormalEpisodes));
  }
  std::vector<int64_t> samples(envs_.size());
  std::vector<int64_t> abnormal(envs_.size());
  DING_RETURN_IF_ERROR(reader->ReadCounts("env_samples", absl::MakeSpan(samples)));
  DING_RETURN_IF_ERROR(reader->ReadCounts("env_abnormal", absl::MakeSpan(abnormal)));
  for (size_t i = 0; i < envs_.size(); ++i) {
    loaded.envs_[i].samples = samples[i];
    loaded.envs_[i].abnormal = abnormal[i];
  }
  DING_ASSIGN_OR_RETURN(const TensorInfo episodes, reader->Info("episode_length"));
  const size_t count = static_cast<size_t>(NumElements(episodes.shape));
  const size_t players = static_cast<size_t>(options_.players);
  std::vector<double> returns(count * players);
  std::vector<int64_t> lengths(count);
  samples.resize(count);
  DING_RETURN_IF_ERROR(reader->ReadSpan<double>("episode_return", absl::MakeSpan(returns)));
  DING_RETURN_IF_ERROR(reader->ReadCounts("episode_length", absl::MakeSpan(lengths)));
  DING_RETURN_IF_ERROR(reader->ReadCounts("episode_samples", absl::MakeSpan(samples)));
  loaded.episodes_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const double* const of_episode = returns.data() + i * players;
    loaded.episodes_[i].returns.assign(of_episode, of_episode + players);
    loaded.episodes_[i].length = lengths[i];
    loaded.episodes_[i].samples = samples[i];
  }
  return loaded;
}

}  // namespace ding
