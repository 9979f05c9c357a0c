#include "ding_worker/collector/core/collect_episodes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"

namespace ding {
namespace {

// A collect of whole episodes waits for their ends, and keeps their rows. It warns of an episode of this length.
constexpr int64_t kLongEpisode = 100000;

}  // namespace

absl::StatusOr<Collected> EpisodeCollection::Collect(absl::Span<const int> wanted,
                                                     const CollectOptions& options) {
  const Timer timer(core_->deps().clock);
  absl::StatusOr<int64_t> target = Target(options);
  if (!target.ok()) return Annotate(target.status(), core_->deps().name);
  DING_RETURN_IF_ERROR(Annotate(core_->PrepareLevelSeeds(options.level_seeds), core_->deps().name));
  absl::StatusOr<std::vector<SegmentBatch>> data =
      CallUser("the env manager", [&] { return GatherAndTake(wanted, *target, options); });
  std::vector<CollectedEpisode> episodes = core_->TakeFinishedEpisodes(options.record_episodes);
  if (!data.ok()) {
    DING_RETURN_IF_ERROR(Annotate(core_->DropAllRows(), core_->deps().name));
    return Annotate(data.status(), core_->deps().name);
  }
  for (const int player : wanted) {
    if (!options_.get_train_sample) break;
    DING_RETURN_IF_ERROR(
        Annotate(core_->MakeTrainSamples(player, &(*data)[player]), core_->deps().name));
  }
  core_->FinishCollect(options, timer.Seconds());
  return Collected{*std::move(data), std::move(episodes)};
}

absl::StatusOr<int64_t> EpisodeCollection::Target(const CollectOptions& options) const {
  const std::optional<int64_t> configured = core_->attributes(0).n_episode;
  if (!options.target.has_value() && !configured.has_value()) {
    return absl::InvalidArgumentError(
        "the number of episodes to collect is not set: expected CollectOptions::target or the "
        "policy's "
        "n_episode");
  }
  const int64_t target = options.target.has_value() ? *options.target : *configured;
  const int env_num = core_->env()->env_num();
  if (target < env_num) {
    return absl::InvalidArgumentError(absl::StrCat("asked to collect ", target, " episodes of ",
                                                   env_num, " envs, expected at least 1 per env"));
  }
  DING_RETURN_IF_ERROR(CheckCollectTarget(target));
  return target;
}

absl::StatusOr<std::vector<SegmentBatch>> EpisodeCollection::GatherAndTake(
    absl::Span<const int> wanted, int64_t target, const CollectOptions& options) {
  DING_RETURN_IF_ERROR(core_->RestartUnfinishedEnvs());
  DING_RETURN_IF_ERROR(Gather(target, options));
  std::vector<SegmentBatch> data(static_cast<size_t>(core_->player_num()));
  for (int i = 0; i < core_->player_num(); ++i) {
    const bool is_wanted = std::binary_search(wanted.begin(), wanted.end(), i);
    const int64_t rows = is_wanted ? core_->ready_rows(i) : 0;
    // Every episode has ended, so no row is followed by the current observations.
    DING_ASSIGN_OR_RETURN(data[i], core_->Take(i, rows, ReadyObs()));
  }
  return data;
}

absl::Status EpisodeCollection::Gather(int64_t target, const CollectOptions& options) {
  active_.assign(static_cast<size_t>(core_->env()->env_num()), false);
  started_ = 0;
  finished_ = 0;
  const int64_t long_episode = std::max(kLongEpisode, core_->env()->env_spec().max_episode_steps);
  int64_t steps_since_end = 0;
  while (finished_ < target) {
    const ActingEnvs acting = Choose(core_->env()->ready_obs(), target);
    const auto plays = [&](int env_id) { return active_[env_id] || started_ < target; };
    DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps,
                          core_->StepEnvs(acting, options, plays));
    DING_RETURN_IF_ERROR(NoteFinished(*timesteps));
    steps_since_end = timesteps->finished.empty() ? steps_since_end + 1 : 0;
    if (steps_since_end != long_episode) continue;
    DING_LOG(WARNING) << core_->deps().name << ": no episode has ended for " << steps_since_end
                      << " steps, while whole episodes are collected (n_episode), " << finished_
                      << " of " << target
                      << " so far. Their rows fill the memory. An env without an end of its own "
                         "needs the wrapper time_limit: env { wrapper { type: \"time_limit\" ... "
                         "} } (docs/env.md); or collect a number of rows (n_sample)";
  }
  return absl::OkStatus();
}

ActingEnvs EpisodeCollection::Choose(const ReadyObs& ready, int64_t target) {
  acting_ids_.clear();
  acting_rows_.clear();
  for (size_t i = 0; i < ready.env_ids.size(); ++i) {
    const int env_id = ready.env_ids[i];
    if (!active_[env_id]) {
      if (started_ == target) continue;
      active_[env_id] = true;
      ++started_;
    }
    acting_ids_.push_back(env_id);
    acting_rows_.push_back(static_cast<int64_t>(i));
  }
  if (acting_ids_.size() == ready.env_ids.size()) return ready;
  return ActingEnvs(acting_ids_, ready.obs, acting_rows_);
}

absl::Status EpisodeCollection::NoteFinished(const Timesteps& timesteps) {
  // The first ready env plays another episode in the place of a void one.
  for (size_t i = 0; i < timesteps.env_ids.size(); ++i) {
    if (timesteps.abnormal[i] == 0) continue;
    active_[timesteps.env_ids[i]] = false;
    --started_;
  }
  for (const FinishedEpisode& finished : timesteps.finished) {
    const int env_id = timesteps.env_ids[finished.row];
    active_[env_id] = false;
    ++finished_;
    if (!options_.reward_shaping) continue;
    DING_RETURN_IF_ERROR(core_->ReshapeRewards(env_id, options_.reward_shaping));
  }
  return absl::OkStatus();
}

absl::Status EpisodeCollection::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(core_->SaveState(writer));
  const std::vector<int> env_ids = core_->unfinished_envs();
  const std::vector<int64_t> unfinished(env_ids.begin(), env_ids.end());
  return writer->WriteSpan<int64_t>("unfinished_envs", unfinished);
}

absl::Status EpisodeCollection::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info("unfinished_envs"));
  std::vector<int64_t> unfinished(static_cast<size_t>(NumElements(info.shape)));
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("unfinished_envs", absl::MakeSpan(unfinished)));
  for (const int64_t id : unfinished) {
    if (id >= 0 && id < core_->env()->env_num()) continue;
    return absl::DataLossError(
        absl::StrCat("saved env is ", id, ", expected 0 to ", core_->env()->env_num() - 1));
  }
  DING_RETURN_IF_ERROR(core_->LoadState(reader));
  core_->set_unfinished_envs(std::vector<int>(unfinished.begin(), unfinished.end()));
  return absl::OkStatus();
}

}  // namespace ding
