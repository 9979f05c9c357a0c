// //worker:replay: runs the learner of a recorded parallel run again, and compares. A program links
// it with the factories of the modules that the run has used.

#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/processes/replay.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "gflags/gflags.h"

DEFINE_string(run, "", "folder of the recorded run");
DEFINE_string(out, "", "folder for the checkpoints of the replay");
DEFINE_int64(until_iter, std::numeric_limits<int64_t>::max(), "iteration at which it ends");
DEFINE_int64(show_iter, 0, "prints the rows that this iteration learned from, and exits");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Runs the learner of a parallel run again that was recorded (--record), in one process and without
collectors, and compares the parameters at each version that the run has published.

  replay --run=FOLDER --out=FOLDER [flags]

  --run=FOLDER          of the recorded run
  --out=FOLDER          a new folder for the checkpoints of the replay
  --until_iter=N        ends with the batch in which the learner reaches iteration N
  --show_iter=N         prints the rows from which the run learned in iteration N: their chunk, who collected
                        them, and by which version of the policy. It replays nothing and needs no --out
  --set PATH=VALUE      changes a field of the run's config, to see from where on that makes a difference;
                        may stand several times: --set policy.params.learning_rate=0.0001
{config help}
  --help                prints this page, and exits

Exit code: 0 all versions have the same bytes, 1 one differs: it says in which iteration and tensor,
2 wrong use, or a recording that cannot be read.
)";

constexpr int kDiffers = 1;
constexpr int kFailed = 2;

absl::StatusOr<int> Run(std::vector<std::string> settings) {
  if (FLAGS_run.empty()) return absl::InvalidArgumentError("--run is missing; see --help");
  DING_RETURN_IF_ERROR(MakeAbsolute({&FLAGS_run, &FLAGS_out}));
  if (!google::GetCommandLineFlagInfoOrDie("show_iter").is_default) {
    DING_ASSIGN_OR_RETURN(const std::string rows, ShowIteration(FLAGS_run, FLAGS_show_iter));
    std::printf("%s", rows.c_str());
    return 0;
  }
  if (FLAGS_out.empty()) return absl::InvalidArgumentError("--out is missing; see --help");
  if (FLAGS_until_iter < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--until_iter is ", FLAGS_until_iter, ", expected 1 or more"));
  }
  ReplayOptions options;
  options.exp_dir = FLAGS_run;
  options.out = FLAGS_out;
  options.until_iter = FLAGS_until_iter;
  options.settings = std::move(settings);
  DING_ASSIGN_OR_RETURN(const ReplayReport report, Replay(options));
  std::printf("%s", report.text.c_str());
  return report.same ? 0 : kDiffers;
}

int Main(int argc, char** argv) {
  std::vector<std::string> settings;
  absl::Status taken = TakeSettings(&argc, argv, &settings);
  InitProgram(&argc, &argv, absl::StrReplaceAll(kHelp, {{"{config help}\n", kHelpConfigHelp}}));
  const ExitGuard guard("the replay is not done");
  if (taken.ok()) taken = EnterCallersFolder();
  const absl::StatusOr<int> status =
      taken.ok() ? Run(std::move(settings)) : absl::StatusOr<int>(taken);
  if (status.ok()) return *status;
  ReportFailure(status.status());
  return kFailed;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
