// //worker:evaluate: plays episodes with the policy of a checkpoint, and records them if asked to.

#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/worker/run/evaluation.h"
#include "ding_worker/worker/run/paths.h"
#include "ding_worker/worker/run/program.h"
#include "gflags/gflags.h"

DEFINE_string(checkpoint, "", "folder of the checkpoint");
DEFINE_int64(n_episode, 10, "episodes to play");
DEFINE_uint64(seed, 0, "seed of the episodes");
DEFINE_string(record_episodes, "", "file that the episodes are written to");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Plays episodes with the policy of a checkpoint, without exploration, and prints the return of
each and the mean.

  evaluate --checkpoint=FOLDER [flags]

  --checkpoint=FOLDER   as //worker:serial saves it: <run folder>/ckpt/ckpt_best, say
  --n_episode=N         episodes to play (default: 10)
  --seed=N              seed of the episodes, each of which begins differently (default: 0)
  --record_episodes=FILE
                        writes the episodes to FILE: a data set for //worker:serial (data_set { path })
{config help}
  --help                prints this page, and exits
)";

int Main(int argc, char** argv) {
  InitProgram(&argc, &argv, absl::StrReplaceAll(kHelp, {{"{config help}\n", kHelpConfigHelp}}));
  if (FLAGS_checkpoint.empty()) {
    return ReportFailure(absl::InvalidArgumentError("--checkpoint is missing; see --help"));
  }
  const ExitGuard guard("there is no result");
  absl::Status paths = EnterCallersFolder();
  if (paths.ok()) paths = MakeAbsolute({&FLAGS_checkpoint, &FLAGS_record_episodes});
  if (!paths.ok()) return ReportFailure(paths);
  EvaluationOptions options;
  options.checkpoint = FLAGS_checkpoint;
  options.n_episode = FLAGS_n_episode;
  options.seed = FLAGS_seed;
  options.record_episodes = FLAGS_record_episodes;
  const absl::StatusOr<EvalResult> result = EvaluateCheckpoint(options);
  if (!result.ok()) return ReportFailure(result.status());
  for (const double episode_return : result->episode_return) {
    std::printf("return %.6g\n", episode_return);
  }
  std::printf("mean %.6g\n", result->mean_return);
  return 0;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
