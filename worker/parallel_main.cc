// //worker:parallel: trains by one config, in several processes. Links with the factories of the
// modules that it is to know.

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/interrupt.h"
#include "ding_worker/worker/link_flags.h"
#include "ding_worker/worker/parallel_registry.h"
#include "ding_worker/worker/parallel_run.h"
#include "ding_worker/worker/parallel_setup.h"
#include "ding_worker/worker/parallel_worker.h"
#include "ding_worker/worker/program.h"
#include "ding_worker/worker/registry.h"
#include "ding_worker/worker/run_result.h"
#include "ding_worker/worker/text_config.h"
#include "gflags/gflags.h"

DEFINE_string(role, "all", "all, coordinator, collector or learner");
DEFINE_string(config, "", "experiment config, in protobuf text format");
DEFINE_string(coordinator, "", "host:port of the coordinator; of collectors and learners");
DEFINE_string(listen, "127.0.0.1:0", "host:port where the coordinator listens");
DEFINE_string(name, "", "name of this worker, for people");
DEFINE_int64(seed, -1, "seed of the run; overrides the config's");
DEFINE_string(exp_dir, "", "folder of the run; must not exist");
DEFINE_int64(max_env_step, -1, "env steps after which the run ends; overrides the config's");
DEFINE_int64(max_train_iter, -1,
             "train iterations after which the run ends; overrides the config's");
DEFINE_double(max_seconds, -1, "seconds after which the run ends; overrides the config's");
DEFINE_bool(list_modules, false, "print what types this program knows, and exit");
DEFINE_bool(print_config, false, "print the resolved config, and exit");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Trains a policy by an experiment config, in several processes, of this machine and of others.

  parallel --config=FILE [flags]                       starts and watches all, on this machine
  parallel --role=coordinator --config=FILE [flags]    one alone: workers are started by you
  parallel --role=collector --coordinator=HOST:PORT    (also learner); joins, and leaves, at any time

  --config=FILE         the experiment, in protobuf text format (see worker/configs/). A worker
                          gets it from its coordinator; one that is given a config all the same
                          refuses to join a run of another one
  --set PATH=VALUE      changes a field of it; may stand several times:
                          --set policy.collect.collector_num=4
  --seed=N              seed of the run
  --exp_dir=FOLDER      where the run is written; must not exist
                          (default: a new folder below the current one, named by exp_name)
  --max_env_step=N      ends the run after N env steps
  --max_train_iter=N    ends the run after N train iterations
  --max_seconds=N       ends the run after N seconds
  --listen=HOST:PORT    where the coordinator listens; port 0: one that is free; 0.0.0.0: for workers
                          of other machines (docs/security.md)
  --name=NAME           of a worker, in logs and in `ctl status`

{link flags}

  --print_config        prints the config with every default filled in, and exits
  --list_modules        prints the types of envs, policies, buffers ... in this program, and exits
  --help                prints this page, and exits

The run folder gets checkpoints (ckpt/), TensorBoard events, CSV and text logs of each process
(log/), the resolved config and result.json. The last line on stdout is `result ` and the same
JSON. `ctl status --coordinator=HOST:PORT` shows workers, rates and who waits for what. A worker
that dies is replaced, and the run goes on. Ctrl-C saves a checkpoint and ends the run.

Exit code: 0 the run came to its end, 1 an error, 128 + signal it was interrupted.
)";

// The flags that stand for a field of the config.
std::vector<std::string> FlagSettings() {
  std::vector<std::string> settings;
  if (FLAGS_seed >= 0) settings.push_back(absl::StrCat("seed=", FLAGS_seed));
  if (FLAGS_max_env_step >= 0) {
    settings.push_back(absl::StrCat("max_env_step=", FLAGS_max_env_step));
  }
  if (FLAGS_max_train_iter >= 0) {
    settings.push_back(absl::StrCat("max_train_iter=", FLAGS_max_train_iter));
  }
  if (FLAGS_max_seconds >= 0) {
    settings.push_back(absl::StrCat("system.max_seconds=", FLAGS_max_seconds));
  }
  return settings;
}

absl::StatusOr<ExperimentConfig> LoadConfig(const std::vector<std::string>& settings) {
  DING_ASSIGN_OR_RETURN(ExperimentConfig config, LoadExperimentConfig(FLAGS_config, settings));
  const std::vector<std::string> problems = FindParallelProblems(config);
  if (problems.empty()) return config;
  return absl::InvalidArgumentError(
      absl::StrCat(FLAGS_config, " cannot run in parallel:\n  ", absl::StrJoin(problems, "\n  ")));
}

absl::Status Coordinate(const ExperimentConfig& config, bool start_workers, Transport* transport) {
  ParallelRunOptions options;
  options.exp_dir = FLAGS_exp_dir;
  options.listen = FLAGS_listen;
  if (start_workers) options.program = "/proc/self/exe";
  options.program_name = google::ProgramInvocationName();
  options.program_flags = LinkFlags();
  options.interrupted = [] { return InterruptSignal() != 0; };
  DING_ASSIGN_OR_RETURN(const RunResult result, RunParallel(config, options, transport));
  std::printf("result %s\n", ToJson(result).c_str());
  return absl::OkStatus();
}

absl::Status Work(Hello::Role role, const std::string& config_digest, Transport* transport) {
  ParallelWorkerOptions options;
  options.coordinator = FLAGS_coordinator;
  options.name = FLAGS_name.empty() ? absl::StrCat(FLAGS_role, "-", getpid()) : FLAGS_name;
  options.config_digest = config_digest;
  options.interrupted = [] { return InterruptSignal() != 0; };
  return RunParallelWorker(role, options, transport);
}

absl::Status RunRole(const std::vector<std::string>& settings) {
  const bool coordinates = FLAGS_role == "all" || FLAGS_role == "coordinator";
  const bool works = FLAGS_role == "collector" || FLAGS_role == "learner";
  if (!coordinates && !works) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--role is '", FLAGS_role, "', expected all, coordinator, collector or learner"));
  }
  if (coordinates && FLAGS_config.empty()) {
    return absl::InvalidArgumentError("--config is missing; see --help");
  }
  if (works && FLAGS_coordinator.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--coordinator=HOST:PORT is missing: a ", FLAGS_role,
                     " works for the coordinator that it is told; see --help"));
  }
  std::optional<ExperimentConfig> config;
  if (!FLAGS_config.empty()) {
    DING_ASSIGN_OR_RETURN(config, LoadConfig(settings));
  }
  GrpcTransport transport(LinkOptions(works ? FLAGS_role : ""));
  CatchInterrupts();
  if (coordinates) return Coordinate(*config, FLAGS_role == "all", &transport);
  return Work(FLAGS_role == "collector" ? Hello::COLLECTOR : Hello::LEARNER,
              config.has_value() ? ConfigDigest(*config) : "", &transport);
}

int Main(int argc, char** argv) {
  std::vector<std::string> settings;
  const absl::Status taken = TakeSettings(&argc, argv, &settings);
  InitProgram(&argc, &argv, absl::StrReplaceAll(kHelp, {{"{link flags}\n", kLinkFlagsHelp}}));
  if (!taken.ok()) return ReportFailure(taken);
  if (FLAGS_list_modules) {
    std::printf("%s%s", ListModules().c_str(), ListParallelModules().c_str());
    return 0;
  }
  for (std::string& setting : FlagSettings()) settings.push_back(std::move(setting));
  if (FLAGS_print_config && !FLAGS_config.empty()) {
    const absl::StatusOr<ExperimentConfig> config = LoadConfig(settings);
    if (!config.ok()) return ReportFailure(config.status());
    std::printf("%s", PrintTextConfig(*config).c_str());
    return 0;
  }
  const absl::Status status = RunRole(settings);
  if (!status.ok()) return ReportFailure(status);
  return InterruptSignal() == 0 ? 0 : 128 + InterruptSignal();
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
