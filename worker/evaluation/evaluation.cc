#include "ding_worker/worker/evaluation/evaluation.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/evaluator/eval_core.h"
#include "ding_worker/collector/evaluator/vector_eval_monitor.h"
#include "ding_worker/collector/serial/serial_collectors.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/data/episodes.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/video.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/saved_policy/policy_description.h"
#include "ding_worker/worker/saved_policy/saved_policy.h"
#include "ding_worker/worker/setup/experiment_setup.h"
#include "ding_worker/worker/setup/game_setup.h"

namespace ding {
namespace {

// What an evaluation reads of a config, besides the policy, which is that of the checkpoint.
constexpr absl::string_view kSettable[] = {"env.type",
                                           "env.params",
                                           "env.reward_weights",
                                           "env.evaluator_type",
                                           "env.evaluator_params",
                                           "env.evaluator_env_num",
                                           "env.wrapper",
                                           "env.out_of_bounds",
                                           "env.manager",
                                           "policy.eval.evaluator.type",
                                           "policy.eval.evaluator.params",
                                           "policy.eval.evaluator.max_abnormal",
                                           "policy.eval.evaluator.max_episode_steps",
                                           "policy.eval.opponent_checkpoint",
                                           "opponent"};

constexpr absl::string_view kTimeLimit = "time_limit";

absl::Status CheckSettings(const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const std::string path = setting.substr(0, setting.find('='));
    const bool settable = absl::c_any_of(
        kSettable, [&](absl::string_view field) { return IsWithinField(path, field); });
    if (settable) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--set ", path, " has no effect here. An evaluation reads: ",
                     absl::StrJoin(kSettable, ", "), "; --episodes is the number of episodes"));
  }
  return absl::OkStatus();
}

// The run's config with the changes of the options.
absl::StatusOr<ExperimentConfig> ConfigFor(const EvaluationOptions& options,
                                           const CheckpointInfo& info) {
  DING_RETURN_IF_ERROR(CheckPolicyIsLinked(info));
  absl::StatusOr<ExperimentConfig> config = ConfigOfCheckpoint(info);
  if (!config.ok()) {
    return Annotate(config.status(),
                    "this program cannot read the run's config, which needs the modules and the "
                    "version of the program that trained it (a program of your own links "
                    "//worker:evaluate_main with its modules)");
  }
  if (!options.env.empty()) {
    EnvSection& env = *config->mutable_env();
    env.set_type(options.env);
    env.clear_params();
    env.clear_reward_weights();
    env.clear_evaluator_type();
    env.clear_evaluator_params();
  }
  if (options.env.empty() && options.settings.empty()) return config;
  // An evaluation plays options.n_episode: the run's number must not limit env.evaluator_env_num.
  config->mutable_env()->set_n_evaluator_episode(std::numeric_limits<int32_t>::max());
  config->mutable_policy()->mutable_eval()->mutable_evaluator()->clear_n_episode();
  DING_ASSIGN_OR_RETURN(
      config, ParseExperimentConfig(PrintTextConfig(*config),
                                    "the run's config with --env and --set", options.settings));
  DING_RETURN_IF_ERROR(MakePathsAbsolute(&*config));
  return config;
}

// An opponent that learns has a checkpoint beside that of the policy.
void UseOpponentBeside(const std::string& checkpoint, ExperimentConfig* config) {
  EvalSection& eval = *config->mutable_policy()->mutable_eval();
  if (!config->opponent().learns() || eval.has_opponent_checkpoint()) return;
  const std::filesystem::path path(checkpoint);
  const std::string name = path.filename().string();
  const std::filesystem::path folder = path.parent_path();
  for (const std::filesystem::path& beside :
       {folder / absl::StrCat("opponent_", name),          // of a serial run
        folder.parent_path() / "ckpt_opponent" / name}) {  // of a parallel one
    if (PathExists(beside.string())) return eval.set_opponent_checkpoint(beside.string());
  }
}

// What one pass over the episodes plays with.
struct Players {
  std::unique_ptr<EnvManager> envs;
  std::unique_ptr<EvalMode> policy;
};

// Makes them anew for each pass, so that equal seeds give equal episodes.
absl::StatusOr<Players> MakePlayers(const EvaluationOptions& options,
                                    const CheckpointReader& checkpoint,
                                    const ExperimentConfig& config, int64_t n_episode,
                                    bool pictures) {
  const auto env_num =
      static_cast<int>(std::min<int64_t>(n_episode, config.env().evaluator_env_num()));
  Players players;
  EnvsOptions envs;
  envs.pictures = pictures;
  DING_ASSIGN_OR_RETURN(players.envs,
                        MakeEvaluatorEnvManager(config, env_num, Clock::Real(), envs));
  const EnvSpec player = PlayerSpec(players.envs->env_spec());
  DING_ASSIGN_OR_RETURN(const EnvSpec trained, SpacesOf(checkpoint.info()));
  if (trained.observation != nullptr && trained.action != nullptr) {
    DING_RETURN_IF_ERROR(Annotate(
        CheckSameSpaces(trained, player),
        absl::StrCat("env '", player.name, "' does not fit the policy, which was trained in '",
                     trained.name, "'")));
  }
  DING_RETURN_IF_ERROR(LoadEnvStatistics(checkpoint, players.envs.get()));
  DING_RETURN_IF_ERROR(
      players.envs->Seed(Rng::DeriveSeed(options.seed, "evaluate"), /*dynamic=*/true));
  DING_ASSIGN_OR_RETURN(players.policy, LoadActor(checkpoint, MakePolicyConfig(config),
                                                  MakePolicyContext(config, player, PolicyModes()),
                                                  {options.sample, options.seed}));
  return players;
}

// Films the first episodes and writes the chosen one.
absl::Status Film(const EvaluationOptions& options, const CheckpointReader& checkpoint,
                  const ExperimentConfig& config, CheckpointEvaluation* result) {
  const EvaluationVideo& video = options.video;
  const std::string file(Basename(video.path));
  const size_t dot = file.rfind('.');
  const std::string format = dot == std::string::npos ? "" : file.substr(dot + 1);
  if (!VideoFormatRegistry().Find(format).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the video's file '", video.path, "' ends in ",
        format.empty() ? "no format" : absl::StrCat("'.", format, "'"), ", expected one of: .",
        absl::StrJoin(VideoFormatRegistry().Names(), ", ."),
        format == "mp4" ? ". For .mp4 link //metrics:mp4_factory, or use tools/evaluate" : ""));
  }
  // A format that cannot be made is refused now, not at the first picture.
  DING_RETURN_IF_ERROR(MakeVideoEncoder(format, /*frames_per_second=*/1).status());
  // It is not committed, so it leaves nothing behind.
  DING_RETURN_IF_ERROR(AtomicFileWriter::Create(video.path).status());

  const int64_t n_episode = std::min(options.n_episode, kMaxFilmedEpisodes);
  DING_ASSIGN_OR_RETURN(const Players players, MakePlayers(options, checkpoint, config, n_episode,
                                                           /*pictures=*/true));
  const EnvSpec& env = players.envs->env_spec();
  if (env.players > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("env '", env.name, "' is a game of ", env.players,
                     " players, of which there are no videos: expected an env for one player, such "
                     "as --env of one that plays the opponent itself"));
  }
  EvalCore::Options core_options;
  core_options.common.n_episode = n_episode;
  core_options.common.max_abnormal = config.policy().eval().evaluator().max_abnormal();
  core_options.common.max_episode_steps = config.policy().eval().evaluator().max_episode_steps();
  ComponentDeps deps;
  deps.name = "video";
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<EvalCore> core,
                        EvalCore::Create(std::move(core_options), players.envs.get(),
                                         {players.policy.get()}, std::move(deps)));
  const int frames_per_second =
      video.frames_per_second.value_or(FramesPerSecond(env.max_episode_steps));
  EvalVideos videos(players.envs->env_num(), kMaxVideoFrames,
                    [&] { return MakeVideoEncoder(format, frames_per_second); });
  EvalOptions eval_options;
  eval_options.cancelled = options.cancelled;
  DING_RETURN_IF_ERROR(core->Eval(eval_options, &videos).status());
  const std::vector<EvalVideos::Video> chosen = videos.TakeChosen();
  const size_t place = video.episode == "worst"  ? 0
                       : video.episode == "best" ? chosen.size() - 1
                                                 : (chosen.size() - 1) / 2;
  result->video_return = chosen[place].episode_return;
  result->video_is_cut = chosen[place].cut;
  return WriteFileAtomically(video.path, chosen[place].bytes);
}

// A collector has no limit of steps: where the env has none either, gives it the wrapper. Returns
// the limit; 0: the env has its own one.
absl::StatusOr<int64_t> LimitEpisodes(const EnvSpec& env, ExperimentConfig* config) {
  const int64_t wanted = config->policy().eval().evaluator().max_episode_steps();
  if ((wanted == 0 && env.max_episode_steps > 0) || env.players > 1) return 0;
  DING_RETURN_IF_ERROR(EnvWrapperRegistry().Find(kTimeLimit).status());
  TimeLimitConfig limit;
  limit.set_max_steps(wanted > 0 ? wanted : SerialEvaluatorOptions::kMaxEpisodeSteps);
  EnvSection& section = *config->mutable_env();
  EnvWrapperConfig& wrapper = *section.add_wrapper();
  wrapper.set_type(std::string(kTimeLimit));
  wrapper.mutable_params()->PackFrom(limit);
  // It comes first: those that change all envs at once must be behind it.
  for (int i = section.wrapper_size() - 1; i > 0; --i) {
    section.mutable_wrapper()->SwapElements(i, i - 1);
  }
  return limit.max_steps();
}

void WarnOfCutEpisodes(const EpisodeSet& set, int64_t limit) {
  const bool cut = limit > 0 && absl::c_any_of(set.episodes.segments, [&](const Segment& segment) {
                     return segment.length >= limit;
                   });
  DING_LOG_IF(WARNING, cut)
      << "episodes were cut after " << limit
      << " steps (policy.eval.evaluator.max_episode_steps). An env without an "
         "end of its own needs the wrapper time_limit";
}

// Evaluates by means of a collector, which keeps the rows, and records them.
absl::Status Record(const EvaluationOptions& options, const Players& players, int64_t limit,
                    CheckpointEvaluation* result) {
  EvalCollectMode collect(players.policy.get());
  ComponentDeps deps;
  deps.name = "recorder";
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<EpisodeSerialCollector> collector,
                        EpisodeSerialCollector::Create({}, players.envs.get(), &collect, deps));
  CollectOptions collect_options;
  collect_options.target = options.n_episode;
  collect_options.cancelled = options.cancelled;
  EpisodeSet set;
  DING_ASSIGN_OR_RETURN(set.episodes, collector->Collect(collect_options));
  WarnOfCutEpisodes(set, limit);
  set.env = players.envs->env_spec().name;
  DING_RETURN_IF_ERROR(WriteEpisodes(options.record_episodes, set));
  DING_ASSIGN_OR_RETURN(result->episode_return, EpisodeReturns(set.episodes));
  result->envstep_count = set.episodes.rows.rows();
  result->mean_return =
      std::accumulate(result->episode_return.begin(), result->episode_return.end(), 0.0) /
      static_cast<double>(result->episode_return.size());
  return absl::OkStatus();
}

absl::StatusOr<CheckpointEvaluation> Evaluate(const EvaluationOptions& options) {
  DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, OpenTrainCheckpoint(options.checkpoint));
  DING_ASSIGN_OR_RETURN(ExperimentConfig config, ConfigFor(options, checkpoint.info()));
  if (config.env().type().empty()) {
    return absl::FailedPreconditionError(
        "its run had no env, so that there is nothing to play: it was judged on its data set "
        "alone; name an env with the spaces of the data set by --env");
  }
  CheckpointEvaluation result;
  result.train_iter = CheckpointProgress(checkpoint.info(), "train_iter");
  result.env_step = CheckpointProgress(checkpoint.info(), "env_step");
  if (!options.video.path.empty()) {
    DING_RETURN_IF_ERROR(Film(options, checkpoint, config, &result));
  }
  DING_ASSIGN_OR_RETURN(Players players, MakePlayers(options, checkpoint, config, options.n_episode,
                                                     /*pictures=*/false));
  result.env = players.envs->env_spec().name;
  if (!options.record_episodes.empty()) {
    DING_ASSIGN_OR_RETURN(const int64_t limit, LimitEpisodes(players.envs->env_spec(), &config));
    if (limit > 0) {
      players = Players();
      DING_ASSIGN_OR_RETURN(players, MakePlayers(options, checkpoint, config, options.n_episode,
                                                 /*pictures=*/false));
    }
    DING_RETURN_IF_ERROR(Record(options, players, limit, &result));
    return result;
  }
  if (players.envs->env_spec().players > 1) UseOpponentBeside(options.checkpoint, &config);
  config.mutable_policy()->mutable_eval()->mutable_evaluator()->set_n_episode(options.n_episode);
  ComponentDeps deps;
  deps.name = "evaluator";
  deps.seed = options.seed;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<ISerialEvaluator> evaluator,
                        MakeEvaluator(config, players.envs.get(), players.policy.get(), deps));
  EvalOptions eval_options;
  eval_options.cancelled = options.cancelled;
  DING_ASSIGN_OR_RETURN(static_cast<EvalResult&>(result), evaluator->Eval(eval_options));
  return result;
}

absl::Status CheckOptions(const EvaluationOptions& options) {
  if (options.n_episode < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--episodes: n_episode is ", options.n_episode, ", expected at least 1"));
  }
  DING_RETURN_IF_ERROR(CheckSettings(options.settings));
  const EvaluationVideo& video = options.video;
  if (video.path.empty()) return absl::OkStatus();
  if (video.episode != "worst" && video.episode != "median" && video.episode != "best") {
    return absl::InvalidArgumentError(absl::StrCat("the video's episode is '", video.episode,
                                                   "', expected worst, median or best"));
  }
  const int frames_per_second = video.frames_per_second.value_or(1);
  if (frames_per_second < 1 || frames_per_second > 100) {
    return absl::InvalidArgumentError(absl::StrCat("the video's frames per second are ",
                                                   frames_per_second, ", expected 1 to 100"));
  }
  return absl::OkStatus();
}

}  // namespace

int FramesPerSecond(int64_t max_episode_steps) {
  constexpr int64_t kMost = 50, kLeast = 2, kSeconds = 4;
  if (max_episode_steps <= 0) return kMost;
  return static_cast<int>(std::clamp(max_episode_steps / kSeconds, kLeast, kMost));
}

absl::StatusOr<CheckpointEvaluation> EvaluateCheckpoint(const EvaluationOptions& options) {
  DING_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<CheckpointEvaluation> result =
      CallUser("a module", [&] { return Evaluate(options); });
  if (result.ok()) return result;
  return Annotate(result.status(), absl::StrCat("cannot evaluate ", options.checkpoint));
}

}  // namespace ding
