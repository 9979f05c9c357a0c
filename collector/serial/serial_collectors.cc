#include "ding_worker/collector/serial/serial_collectors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Returns the players to collect, in ascending order: `wanted`, or all `players` if it is empty.
// kInvalidArgument for a player that does not exist or occurs twice.
absl::StatusOr<std::vector<int>> WantedPlayers(absl::Span<const int> wanted, int players) {
  std::vector<int> sorted(wanted.begin(), wanted.end());
  for (int i = 0; wanted.empty() && i < players; ++i) sorted.push_back(i);
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] >= 0 && sorted[i] < players && (i == 0 || sorted[i] != sorted[i - 1])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "collect_players has ", sorted[i], ", expected each of 0..", players - 1, " once at most"));
  }
  return sorted;
}

// Returns the options of the core of a collector; a game adds its own.
CollectCore::Options CoreOptions(const SerialCollectorOptions& common, bool by_episode) {
  CollectCore::Options options;
  options.common = common;
  options.whole_episodes = by_episode;
  options.log_samples = !by_episode;
  return options;
}

// Creates the core of a collector of games, and fills in the players of its loop.
absl::StatusOr<std::unique_ptr<CollectCore>> CreateBattleCore(
    CollectCore::Options options, absl::Span<const int> collect_players, EnvManager* env,
    std::vector<CollectMode*> policies, ComponentDeps deps, CollectLoop::Options* loop) {
  options.game = true;
  options.log_samples = false;
  absl::StatusOr<std::vector<int>> wanted =
      WantedPlayers(collect_players, static_cast<int>(policies.size()));
  if (wanted.ok()) {
    loop->players = *std::move(wanted);
  } else {
    options.common.problems.emplace_back(wanted.status().message());
  }
  return CollectCore::Create(std::move(options), env, std::move(policies), std::move(deps));
}

BattleData ToBattleData(Collected collected) {
  BattleData data;
  data.players = std::move(collected.players);
  data.episodes.resize(data.players.size());
  for (size_t player = 0; player < data.players.size(); ++player) {
    for (const CollectedEpisode& episode : collected.episodes) {
      data.episodes[player].push_back(
          {episode.env_id, episode.returns[player], episode.length, episode.info});
    }
  }
  return data;
}

// A collect of whole episodes waits for their ends, and keeps their rows. It warns of an episode of
// this length.
constexpr int64_t kLongEpisode = 100000;
// No machine has memory for more samples or episodes.
constexpr int64_t kMostTarget = int64_t{1} << 40;

}  // namespace

absl::StatusOr<std::unique_ptr<SampleSerialCollector>> SampleSerialCollector::Create(
    Options options, EnvManager* env, CollectMode* policy, ComponentDeps deps) {
  CollectCore::Options core_options = CoreOptions(options, /*by_episode=*/false);
  core_options.maxlen = options.traj_len;
  CollectLoop::Options loop;
  if (options.reward_shaping) {
    core_options.whole_episodes = true;
    loop.reward_shaping = std::move(options.reward_shaping);
  }
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CollectCore::Create(std::move(core_options), env, PoliciesOf(policy), std::move(deps)));
  return absl::WrapUnique(new SampleSerialCollector(std::move(loop), std::move(core)));
}

absl::StatusOr<SegmentBatch> SampleSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, loop_.Collect(options));
  return std::move(collected.players[0]);
}

absl::StatusOr<std::unique_ptr<EpisodeSerialCollector>> EpisodeSerialCollector::Create(
    Options options, EnvManager* env, CollectMode* policy, ComponentDeps deps) {
  CollectLoop::Options loop;
  loop.by_episode = true;
  loop.get_train_sample = options.get_train_sample;
  loop.reward_shaping = std::move(options.reward_shaping);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<CollectCore> core,
                        CollectCore::Create(CoreOptions(options, loop.by_episode), env,
                                            PoliciesOf(policy), std::move(deps)));
  return absl::WrapUnique(new EpisodeSerialCollector(std::move(loop), std::move(core)));
}

absl::StatusOr<SegmentBatch> EpisodeSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, loop_.Collect(options));
  return std::move(collected.players[0]);
}

absl::StatusOr<std::unique_ptr<BattleSampleSerialCollector>> BattleSampleSerialCollector::Create(
    Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps) {
  CollectLoop::Options loop;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CreateBattleCore(CoreOptions(options, loop.by_episode), options.collect_players, env,
                       std::move(policies), std::move(deps), &loop));
  return absl::WrapUnique(new BattleSampleSerialCollector(std::move(loop), std::move(core)));
}

absl::StatusOr<BattleData> BattleSampleSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, loop_.Collect(options));
  return ToBattleData(std::move(collected));
}

absl::StatusOr<std::unique_ptr<BattleEpisodeSerialCollector>> BattleEpisodeSerialCollector::Create(
    Options options, EnvManager* env, std::vector<CollectMode*> policies, ComponentDeps deps) {
  CollectLoop::Options loop;
  loop.by_episode = true;
  loop.get_train_sample = options.get_train_sample;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CreateBattleCore(CoreOptions(options, loop.by_episode), options.collect_players, env,
                       std::move(policies), std::move(deps), &loop));
  return absl::WrapUnique(new BattleEpisodeSerialCollector(std::move(loop), std::move(core)));
}

absl::StatusOr<BattleData> BattleEpisodeSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, loop_.Collect(options));
  return ToBattleData(std::move(collected));
}

absl::StatusOr<Collected> CollectLoop::Collect(const CollectOptions& options) {
  const std::string& name = core_->deps().name;
  const Timer timer(core_->deps().clock);
  const absl::StatusOr<int64_t> target =
      CallUser("the env manager", [&] { return Prepare(options); });
  if (!target.ok()) return Annotate(target.status(), name);
  absl::StatusOr<std::vector<SegmentBatch>> data =
      CallUser("the env manager", [&] { return StepAndTake(*target, options); });
  std::vector<CollectedEpisode> episodes = core_->TakeFinishedEpisodes(options.record_episodes);
  if (!data.ok()) {
    if (options_.by_episode) DING_RETURN_IF_ERROR(Annotate(core_->DropAllRows(), name));
    return Annotate(data.status(), name);
  }
  for (const int player : options_.players) {
    if (!options_.get_train_sample) break;
    DING_RETURN_IF_ERROR(Annotate(core_->MakeTrainSamples(player, &(*data)[player]), name));
  }
  core_->FinishCollect(options, timer.Seconds());
  return Collected{*std::move(data), std::move(episodes)};
}

absl::StatusOr<int64_t> CollectLoop::Prepare(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(const int64_t target, Target(options));
  DING_RETURN_IF_ERROR(core_->PrepareLevelSeeds(options.level_seeds));
  if (options_.by_episode) return target;
  // Samples of several rows need more room; the last collect tells how much.
  DING_RETURN_IF_ERROR(core_->Reserve(SamplesAreRows() ? target : std::max(target, most_rows_)));
  return target;
}

absl::StatusOr<int64_t> CollectLoop::Target(const CollectOptions& options) {
  const absl::string_view unit = options_.by_episode ? "episode" : "sample";
  const CollectAttributes& attributes = core_->attributes(0);
  const std::optional<int64_t> wanted =
      options.target.has_value()
          ? options.target
          : (options_.by_episode ? attributes.n_episode : attributes.n_sample);
  if (!wanted.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("the number of ", unit,
                                                   "s to collect is not set: expected "
                                                   "CollectOptions::target or the policy's n_",
                                                   unit));
  }
  const int64_t target = *wanted;
  const int env_num = core_->env()->env_num();
  if (options_.by_episode && target < env_num) {
    return absl::InvalidArgumentError(absl::StrCat("asked to collect ", target, " episodes of ",
                                                   env_num, " envs, expected at least 1 per env"));
  }
  if (target < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked to collect ", target, " samples, expected at least 1"));
  }
  if (target > kMostTarget) {
    return absl::InvalidArgumentError(absl::StrCat(
        "asked to collect ", target, " samples or episodes, expected at most ", kMostTarget));
  }
  if (!options_.by_episode && target % env_num != 0 && SamplesAreRows() &&
      warned_targets_.insert(target).second) {
    DING_LOG(WARNING) << core_->deps().name << ": " << target << " rows are not a multiple of the "
                      << env_num << " envs: each collect "
                      << (options.drop_extra ? "drops the rows that are too many"
                                             : "returns more rows than that");
  }
  return target;
}

absl::StatusOr<std::vector<SegmentBatch>> CollectLoop::StepAndTake(int64_t target,
                                                                   const CollectOptions& options) {
  ReadyObs now;
  if (options_.by_episode) {
    // Every episode has ended, so no row is followed by the current observations.
    DING_RETURN_IF_ERROR(StepUntilEpisodes(target, options));
  } else {
    DING_RETURN_IF_ERROR(StepUntilSamples(target, options));
    now = core_->env()->ready_obs();
  }
  std::vector<SegmentBatch> data(static_cast<size_t>(core_->player_num()));
  for (int i = 0; i < core_->player_num(); ++i) {
    const bool wanted = std::binary_search(options_.players.begin(), options_.players.end(), i);
    // There are no extra episodes. A row of a longer sample is never extra: it may be the first one
    // of a sample that the next collect completes.
    const bool drop_extra =
        !options_.by_episode && options.drop_extra && core_->attributes(i).unroll_len == 1;
    const int64_t rows = !wanted ? 0 : drop_extra ? target : core_->ready_rows(i);
    DING_ASSIGN_OR_RETURN(data[i], core_->Take(i, rows, now));
    core_->DropHeldRowsIfOnPolicy(i);
  }
  return data;
}

absl::Status CollectLoop::StepUntilSamples(int64_t target, const CollectOptions& options) {
  most_rows_ = 0;
  while (ReadySamples() < target) {
    DING_ASSIGN_OR_RETURN(const Timesteps* const timesteps, core_->StepReadyEnvs(options));
    DING_RETURN_IF_ERROR(ShapeRewards(*timesteps));
  }
  for (int i = 0; i < core_->player_num(); ++i) {
    most_rows_ = std::max(most_rows_, core_->ready_rows(i));
  }
  return absl::OkStatus();
}

int64_t CollectLoop::ReadySamples() const {
  // A player that ended before its game has fewer rows than the others.
  int64_t samples = 0;
  for (const int player : options_.players) {
    samples = std::max(samples, core_->ready_samples(player));
  }
  return samples;
}

bool CollectLoop::SamplesAreRows() const {
  for (int i = 0; i < core_->player_num(); ++i) {
    if (core_->attributes(i).unroll_len > 1) return false;
  }
  return true;
}

absl::Status CollectLoop::StepUntilEpisodes(int64_t target, const CollectOptions& options) {
  DING_RETURN_IF_ERROR(core_->RestartUnfinishedEnvs());
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
                         "} } (docs/reference/wrappers.md); or collect a number of rows (n_sample)";
  }
  return absl::OkStatus();
}

ActingEnvs CollectLoop::Choose(const ReadyObs& ready, int64_t target) {
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

absl::Status CollectLoop::NoteFinished(const Timesteps& timesteps) {
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
  }
  return ShapeRewards(timesteps);
}

absl::Status CollectLoop::ShapeRewards(const Timesteps& timesteps) {
  if (!options_.reward_shaping) return absl::OkStatus();
  for (const FinishedEpisode& finished : timesteps.finished) {
    DING_RETURN_IF_ERROR(
        core_->ReshapeRewards(timesteps.env_ids[finished.row], options_.reward_shaping));
  }
  return absl::OkStatus();
}

}  // namespace ding
