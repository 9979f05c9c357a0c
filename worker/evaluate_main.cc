// //worker:evaluate: plays episodes with the policies of checkpoints, films and records them if
// asked to. A program links it with the factories of the modules that it offers.

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/evaluation/evaluation.h"
#include "ding_worker/worker/evaluation/evaluation_report.h"
#include "ding_worker/worker/program/interrupt.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/saved_policy/saved_policy.h"
#include "ding_worker/worker/serial_registry.h"
#include "gflags/gflags.h"

// TakeRepeated() takes it away; it is here so that all flags are known.
DEFINE_string(checkpoint, "", "folder of a run or of a checkpoint; may stand several times");
DEFINE_int64(episodes, 10, "episodes to play");
DEFINE_uint64(seed, 0, "seed of the episodes");
DEFINE_string(actions, "greedy", "greedy or sampled");
DEFINE_bool(list_modules, false, "print the types that this program has, with help, and exit");
DEFINE_string(env, "", "type of another env with the same observations and actions");
DEFINE_string(python, "", "Python interpreter of envs of type 'gymnasium'; the run's by default");
DEFINE_bool(json, false, "print one JSON object");
DEFINE_string(video, "", "file that a video of an episode is written to");
DEFINE_string(video_episode, "median", "worst, median or best");
DEFINE_int32(video_fps, 50, "steps that the video shows per second; default: as many as suit");
DEFINE_string(record_episodes, "", "file that the episodes are written to");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Plays episodes with the policy of a checkpoint, and prints mean, deviation and a confidence interval
of their returns.

  evaluate --checkpoint=FOLDER [flags]

  --checkpoint=FOLDER   of a run: its ckpt_best is taken, else its newest checkpoint; or of a checkpoint.
                        May stand several times: they are compared in one table
  --episodes=N          episodes to play (default: 10)
  --seed=N              of the episodes, each of which begins differently, and of sampled actions
                        (default: 0)
  --actions=KIND        greedy: the best action (default); sampled: as while it collects
  --env=TYPE            plays in another env with the same observations and actions
  --set PATH=VALUE      changes a field of the run's config: of the env, its manager or the evaluator; may
                        stand several times: --set env.params.opening_moves=2
  --python=PROGRAM      the Python interpreter of envs of type 'gymnasium' (default: that of the run)
  --json                prints one JSON object with "mean" instead of the text (docs/how_to/evaluate.md)
  --video=FILE          makes a video of one of the first 10 episodes: .gif, and .mp4 with tools/evaluate or
                        where the program links //metrics:mp4_factory
  --video_episode=WHICH worst, median (default) or best
  --video_fps=N         steps per second, 1 to 100 (default: 50; fewer if episodes are short: an episode of
                        the env's longest length takes 4 s)
  --record_episodes=FILE
                        writes the episodes to FILE: a data set for //worker:serial (data_set { path })
  --list_modules        prints the types of envs, policies, networks ... in this program, and exits
{config help}
  --help                prints this page, and exits

Exit code: 0 all was evaluated, 1 an error, 128 + signal it was interrupted (SIGINT, SIGTERM, SIGHUP, SIGUSR1).
)";

constexpr char kInterrupted[] = "interrupted: there is no result";

// What the flags say for every checkpoint.
absl::StatusOr<EvaluationOptions> OptionsOfFlags(std::vector<std::string> settings) {
  EvaluationOptions options;
  options.n_episode = FLAGS_episodes;
  options.seed = FLAGS_seed;
  if (FLAGS_actions != "greedy" && FLAGS_actions != "sampled") {
    return absl::InvalidArgumentError(
        absl::StrCat("--actions is '", FLAGS_actions, "', expected greedy or sampled"));
  }
  options.sample = FLAGS_actions == "sampled";
  options.env = FLAGS_env;
  if (!FLAGS_python.empty()) settings.push_back(absl::StrCat("env.params.python=", FLAGS_python));
  options.settings = std::move(settings);
  options.record_episodes = FLAGS_record_episodes;
  options.video.path = FLAGS_video;
  options.video.episode = FLAGS_video_episode;
  if (!google::GetCommandLineFlagInfoOrDie("video_fps").is_default) {
    options.video.frames_per_second = FLAGS_video_fps;
  }
  DING_RETURN_IF_ERROR(MakeAbsolute({&options.record_episodes, &options.video.path}));
  options.cancelled = IsInterrupted;
  return options;
}

absl::Status EvaluateAll(std::vector<std::string> checkpoints, std::vector<std::string> settings) {
  if (checkpoints.empty()) {
    return absl::InvalidArgumentError("--checkpoint is missing; see --help");
  }
  DING_ASSIGN_OR_RETURN(EvaluationOptions options, OptionsOfFlags(std::move(settings)));
  if (checkpoints.size() > 1 && !(FLAGS_video.empty() && FLAGS_record_episodes.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("--video and --record_episodes name one file, but there are ",
                     checkpoints.size(), " checkpoints: expected one"));
  }
  std::vector<std::string> found;
  for (std::string& folder : checkpoints) {
    DING_RETURN_IF_ERROR(MakeAbsolute({&folder}));
    DING_ASSIGN_OR_RETURN(FoundCheckpoint checkpoint, FindCheckpoint(folder));
    if (!checkpoint.note.empty()) std::fprintf(stderr, "%s\n", checkpoint.note.c_str());
    found.push_back(std::move(checkpoint.path));
  }
  std::vector<ReportedEvaluation> evaluations;
  for (std::string& checkpoint : found) {
    options.checkpoint = checkpoint;
    DING_ASSIGN_OR_RETURN(CheckpointEvaluation result, EvaluateCheckpoint(options));
    evaluations.push_back({std::move(checkpoint), options, std::move(result)});
  }
  const std::string text =
      FLAGS_json ? absl::StrCat(EvaluationJson(evaluations), "\n") : EvaluationText(evaluations);
  std::printf("%s", text.c_str());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::vector<std::string> checkpoints;
  std::vector<std::string> settings;
  absl::Status status = TakeRepeated("checkpoint", "FOLDER", &argc, argv, &checkpoints);
  status.Update(TakeSettings(&argc, argv, &settings));
  InitProgram(&argc, &argv, absl::StrReplaceAll(kHelp, {{"{config help}\n", kHelpConfigHelp}}));
  const ExitGuard guard("there is no result");
  if (status.ok()) status = EnterCallersFolder();
  if (status.ok() && FLAGS_list_modules) {
    std::printf("%s", ListSerialModules().c_str());
    return 0;
  }
  // An env may be in something that takes long.
  InterruptDeadline deadline;
  if (status.ok()) status = deadline.Start();
  CatchInterrupts();
  deadline.Enter([] { std::fprintf(stderr, "%s\n", kInterrupted); });
  if (status.ok()) status = EvaluateAll(std::move(checkpoints), std::move(settings));
  if (IsInterrupted() && (status.ok() || absl::IsCancelled(status))) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", kInterrupted);
    return 128 + InterruptSignal();
  }
  return status.ok() ? 0 : ReportFailure(status);
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
