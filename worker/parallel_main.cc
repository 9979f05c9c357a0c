// //worker:parallel: trains by one config, in several processes. A program links it with the
// factories of the modules that it offers.

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/coordinator/journal/sqlite_log.h"
#include "ding_worker/interaction/grpc/grpc_log.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/policy_defaults.h"
#include "ding_worker/worker/config/run_budget.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/coordination/parallel_run.h"
#include "ding_worker/worker/coordination/parallel_setup.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "ding_worker/worker/processes/parallel_job.h"
#include "ding_worker/worker/processes/parallel_worker.h"
#include "ding_worker/worker/processes/supervisor.h"
#include "ding_worker/worker/program/interrupt.h"
#include "ding_worker/worker/program/link_flags.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/program/run_monitor.h"
#include "ding_worker/worker/program/train_flags.h"
#include "ding_worker/worker/registry.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/run_folder/run_folder.h"
#include "ding_worker/worker/run_folder/run_result.h"
#include "ding_worker/worker/tasks/configured_learner.h"
#include "ding_worker/worker/tasks/derived_config.h"
#include "ding_worker/worker/tasks/parallel_envs.h"
#include "gflags/gflags.h"

constexpr char kAnyPort[] = "127.0.0.1:0";

DEFINE_string(role, "all", "all, coordinator, collector, learner or aggregator");
DEFINE_string(config, "", "experiment config, in protobuf text format");
DEFINE_string(coordinator, "", "host:port of the coordinator; of collectors and learners");
DEFINE_string(listen, kAnyPort, "host:port where the coordinator, or an aggregator, listens");
DEFINE_int64(supervised_by, 0,
             "process id of the process that started this one; this one ends with it");
DEFINE_bool(prepared, false, "the process that started this one has prepared the config");
DEFINE_bool(resume, false, "go on with the run in --exp_dir");
DEFINE_bool(again, false, "this coordinator replaces one that was killed");
DEFINE_string(run_store, "", "store of the run to resume, if its folder is on another machine");
DEFINE_int32(learners, 0, "learner processes that an aggregator starts");
DEFINE_int32(gpus, 0,
             "GPUs that a worker may use; not set: those that this program can compute on");
DEFINE_string(all_reduce_host, "127.0.0.1",
              "this machine, as the other learners of its group reach it");
DEFINE_string(name, "", "name of this worker, for people and of its logs");
DEFINE_string(exp_dir, "", "folder of the run; must not exist, unless the run is resumed");
DEFINE_double(max_seconds, -1, "seconds after which the run ends; overrides the config's");
DEFINE_bool(record, false, "record what the learner learns from, for tools/replay");
DEFINE_bool(list_modules, false, "print the types that this program has, with help, and exit");
DEFINE_bool(print_config, false, "print the resolved config, and exit");

namespace ding {
namespace {

constexpr char kConfigName[] = "total_config.textproto";

constexpr char kHelp[] =
    R"(Trains a policy by an experiment config, in several processes, of this machine and of others.

  parallel --config=FILE [flags]                       starts and watches all, on this machine
  parallel --role=coordinator --config=FILE [flags]    one alone: workers are started by you
  parallel --role=collector --coordinator=HOST:PORT    (also learner); joins, and leaves, at any time
  parallel --role=aggregator --coordinator=HOST:PORT   several learners that learn together as one: they
                                                       join it, as if it were their coordinator

  --config=FILE         the experiment, in protobuf text format (see worker/configs/). A worker
                          gets it from its coordinator; one that is given a config all the same
                          refuses to join a run of another one
  --set PATH=VALUE      changes a field of it; may stand several times:
                          --set policy.collect.collector.collector_num=4
  --exp_dir=FOLDER      where the run is written; must not exist, unless it is resumed
                          (default: a new folder below the current one, named by exp_name)
  --resume              goes on with the run in --exp_dir, however it ended; its config, if none is
                          given. Budgets may be others. Of one that has converged: prints its result
  --run_store=URL       of a run that is resumed: makes --exp_dir from what is in its store,
                          redis:HOST:PORT/PREFIX/RUN (run_files: STORE, or journal: JOURNAL_IN_STORE)
{run flags}
{progress flags}
  --max_seconds=N       ends the run after N seconds
  --record              records what the learner learns from, up to 4 GiB (system.record_bytes), so that
                        tools/replay can run it again (docs/how_to/replay_a_run.md)
  --listen=HOST:PORT    where the coordinator listens; port 0: one that is free; 0.0.0.0: for workers
                          of other machines (docs/how_to/secure_cluster.md)
  --name=NAME           of a worker, in logs and in `ctl status`
  --learners=N          of an aggregator: starts and watches N learners on this machine; 0: you do
  --gpus=N              GPUs that a worker may use, which learner_resources and collector_resources of the
                        config ask for; without a role: each of the workers (default: those that the
                        libtorch finds that this program is linked with; 0 without libtorch)
  --all_reduce_host=H   of a learner in a group: where the others reach it; what they tell each other
                        is not encrypted

{link flags}
{monitor flags}

  --print_config        prints the config with every default filled in, and where those of the
                        policy come from, and exits
  --list_modules        prints the types of envs, policies, buffers ... in this program, with a line
                        of help for each and the message that its params hold, and exits
{config help}
  --help                prints this page, and exits

The run folder gets checkpoints (ckpt/), TensorBoard events, CSV and text logs of each process
(log/), the resolved config and result.json. The last line on stdout is `result ` and the same
JSON, with at most five numbers of a list; a terminal shows a summary in its place. `ctl
--coordinator=HOST:PORT` shows workers, rates and who waits for what (status), and
changes the run (grow, shrink, drain, stop). A worker or a coordinator that dies is replaced, and
the run goes on. Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 save a checkpoint and end the run.

Relative paths, in flags and in the config, are seen from the current folder (with `bazel run`: from
where that was called).

Exit code: 0 the run came to its end, 1 an error, 128 + signal it was interrupted, 3 it ended and
could not save its rows or last checkpoints: it says where they are, and how to go on.
)";

// Returns the settings for the flags that stand for a field of the config.
std::vector<std::string> FlagSettings() {
  std::vector<std::string> settings = RunFlagSettings();
  if (!google::GetCommandLineFlagInfoOrDie("max_seconds").is_default) {
    settings.push_back(absl::StrCat("system.max_seconds=", FLAGS_max_seconds));
  }
  if (FLAGS_record) settings.push_back(absl::StrCat("system.record_bytes=", int64_t{4} << 30));
  return settings;
}

absl::StatusOr<ExperimentConfig> LoadConfig(const std::vector<std::string>& settings) {
  DING_ASSIGN_OR_RETURN(ExperimentConfig config, LoadExperimentConfig(FLAGS_config, settings));
  if (FLAGS_prepared) return config;
  DING_RETURN_IF_ERROR(MakePathsAbsolute(&config));
  // The config of a run that goes on has them already.
  if (Basename(FLAGS_config) != kConfigName) DING_RETURN_IF_ERROR(KeepPythonFolders(&config));
  return config;
}

absl::StatusOr<ExperimentConfig> PrepareConfig(const ExperimentConfig& config) {
  if (FLAGS_prepared) return config;
  return PrepareParallelConfig(config, FLAGS_config, Clock::Real());
}

// Writes the config into memory that lives as long as this process, where each coordinator of the
// run reads it. Returns the path.
absl::StatusOr<std::string> ShareConfig(const ExperimentConfig& config) {
  const std::string text = PrintTextConfig(config);
  const int fd = memfd_create("config", MFD_CLOEXEC);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return ErrnoStatus(errno, "cannot keep the config in memory");
  }
  return absl::StrCat("/proc/", getpid(), "/fd/", fd);
}

// Whether the process that started this one is still alive; true if this one is not supervised.
bool SupervisorLives() { return FLAGS_supervised_by == 0 || getppid() == FLAGS_supervised_by; }

// Number of threads of all processes of a run together, since they share the limits of their user
// and of their container. Address space is a limit of each process: if it is limited, only the
// threads of this process count.
int ThreadsOfAll(const ParallelJobOptions& options) {
  constexpr int kThreadsOfAProcess = 20;
  constexpr int kMaxTried = 512;
  rlimit space = {};
  if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY) {
    return GrpcTransport::kThreads;
  }
  const int aggregators = options.learners > 1 ? 1 : 0;
  const int processes =
      2 + aggregators + options.learners * options.learner_tasks + options.collectors;
  return std::min(processes, kMaxTried / kThreadsOfAProcess) * kThreadsOfAProcess;
}

// The GPUs that a worker reports.
int Gpus() {
  return google::GetCommandLineFlagInfoOrDie("gpus").is_default ? CountGpus() : FLAGS_gpus;
}

// The flags that every process of a run gets: those of its links, and how much it logs.
std::vector<std::string> ArgumentsOfAll() {
  std::vector<std::string> arguments = LinkFlags();
  const google::CommandLineFlagInfo verbosity = google::GetCommandLineFlagInfoOrDie("v");
  if (!verbosity.is_default) arguments.push_back(absl::StrCat("--v=", verbosity.current_value));
  return arguments;
}

absl::StatusOr<int> StartAll(const ExperimentConfig& config, Transport* transport) {
  ParallelJobOptions options;
  options.program = "/proc/self/exe";
  options.program_name = google::ProgramInvocationName();
  DING_ASSIGN_OR_RETURN(options.exp_dir,
                        RunFolder::ChoosePath(FLAGS_exp_dir, config.exp_name(), Clock::Real()));
  options.resume = FLAGS_resume;
  options.collectors = CollectorsOf(config);
  DING_ASSIGN_OR_RETURN(const std::string config_path, ShareConfig(config));
  options.coordinator_arguments = {absl::StrCat("--config=", config_path), "--prepared",
                                   absl::StrCat("--listen=", FLAGS_listen), ProgressArgument()};
  if (!RunMonitorArgument().empty()) options.coordinator_arguments.push_back(RunMonitorArgument());
  options.learners = config.policy().learn().learner_num();
  options.learner_tasks = LearnerTasksOf(config);
  options.gpus = Gpus();
  options.link_arguments = ArgumentsOfAll();
  options.interrupted = InterruptSignal;
  DING_RETURN_IF_ERROR(CheckThreads(ThreadsOfAll(options)));
  return RunParallelJob(options, transport);
}

// Says what an interrupted run has saved, and how to go on with it.
void ExplainInterruption(const std::string& exp_dir) {
  std::fprintf(stderr,
               "interrupted; saved in %s: rows and policies (coordinator/), the learner "
               "(ckpt/learner_resume)\n"
               "go on with: %s\n",
               exp_dir.c_str(), ResumeCommand(google::ProgramInvocationName(), exp_dir).c_str());
  const absl::StatusOr<ParallelRunInfo> info = ReadRunInfo(exp_dir);
  if (!info.ok() || info->opening().empty()) return;
  std::fprintf(stderr,
               "or on another machine: parallel --resume --exp_dir=NEW_FOLDER --run_store=%s\n",
               ShellWord(info->store_url()).c_str());
}

// Runs the coordinator. Returns the exit status.
absl::StatusOr<int> Coordinate(const ExperimentConfig& config, InterruptDeadline* deadline,
                               Transport* transport) {
  ParallelRunOptions options;
  options.exp_dir = FLAGS_exp_dir;
  options.resume = FLAGS_resume;
  options.again = FLAGS_again;
  options.listen = FLAGS_listen;
  options.progress = ProgressByFlags();
  // Workers of a resumed run look for the coordinator at its old address.
  const bool anywhere = google::GetCommandLineFlagInfoOrDie("listen").is_default;
  options.as_before = FLAGS_again || (FLAGS_resume && anywhere);
  options.interrupted = [] { return IsInterrupted() || !SupervisorLives(); };
  std::optional<GrpcTransport> operators;  // for the monitor's page
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<RunMonitor> monitor, StartRunMonitor());
  if (monitor != nullptr) {
    DING_RETURN_IF_ERROR(CheckThreads(GrpcTransport::kThreads));
    operators.emplace(LinkOptions("operator"));
    options.show = [&monitor](const RunStatus& status, const StageTimes& stages) {
      if (monitor->Due()) monitor->Show(status, stages);
    };
  }
  deadline->Enter([] { std::fprintf(stderr, "interrupted before the run began\n"); });
  options.began = [&](const std::string& exp_dir) {
    deadline->Enter(nullptr);
    if (monitor != nullptr) monitor->Begin(exp_dir, AskerOf(&*operators));
  };
  DING_ASSIGN_OR_RETURN(const ParallelOutcome outcome, RunParallel(config, options, transport));
  const bool on_terminal =
      InterruptSignal() == 0 && !outcome.exp_dir.empty() && isatty(STDOUT_FILENO) == 1;
  if (!outcome.result.empty()) {
    std::printf("%s", ResultText(outcome.result, outcome.exp_dir, on_terminal).c_str());
  }
  if (outcome.saved.ok()) {
    if (InterruptSignal() != 0 && !outcome.exp_dir.empty()) ExplainInterruption(outcome.exp_dir);
    return 0;
  }
  ReportFailure(outcome.saved);
  return kUnsavedStatus;
}

absl::Status Work(const std::string& config_digest, Transport* transport) {
  ParallelWorkerOptions options;
  options.coordinator = FLAGS_coordinator;
  options.name = FLAGS_name.empty() ? absl::StrCat(FLAGS_role, "-", getpid()) : FLAGS_name;
  options.config_digest = config_digest;
  options.gpus = Gpus();
  options.all_reduce_host = FLAGS_all_reduce_host;
  options.interrupted = IsInterrupted;
  options.may_rejoin = SupervisorLives;
  if (FLAGS_role != "aggregator") {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<RunMonitor> monitor, StartRunMonitor());
    if (monitor != nullptr) {
      options.show = [&monitor](const std::string& run, const StageTimes& stages) {
        if (!monitor->Due()) return;
        RunStatus status;
        status.set_run(run);
        monitor->Show(status, stages);
      };
    }
    return RunParallelWorker(FLAGS_role == "collector" ? Hello::COLLECTOR : Hello::LEARNER, options,
                             transport);
  }
  ParallelAggregatorOptions aggregator;
  aggregator.worker = options;
  aggregator.listen = FLAGS_listen;
  aggregator.learners = FLAGS_learners;
  aggregator.program = "/proc/self/exe";
  aggregator.program_name = google::ProgramInvocationName();
  aggregator.link_arguments = ArgumentsOfAll();
  return RunParallelAggregator(aggregator, transport);
}

// The role as which this process connects to others; empty for one that listens.
std::string LinkRole() {
  if (FLAGS_role == "all") return "operator";  // towards the coordinator that it starts
  if (FLAGS_role == "aggregator") return "learner";
  return FLAGS_role == "coordinator" ? "" : FLAGS_role;
}

// Runs the process in its role. Returns the exit status, or why the role cannot be taken.
absl::StatusOr<int> RunRole(const std::vector<std::string>& settings) {
  const bool coordinates = FLAGS_role == "all" || FLAGS_role == "coordinator";
  const bool works =
      FLAGS_role == "collector" || FLAGS_role == "learner" || FLAGS_role == "aggregator";
  if (!coordinates && !works) {
    return absl::InvalidArgumentError(
        absl::StrCat("--role is '", FLAGS_role,
                     "', expected all, coordinator, collector, learner or aggregator"));
  }
  if (FLAGS_gpus < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--gpus is ", FLAGS_gpus, ", expected at least 0"));
  }
  if (FLAGS_role == "aggregator" && !RunMonitorArgument().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(RunMonitorArgument(), " is for the coordinator, collectors and learners: an ",
                     "aggregator measures no stages"));
  }
  if (FLAGS_role == "coordinator" && FLAGS_gpus > 0) {
    return absl::InvalidArgumentError(
        "--gpus is for workers: pass it to the collectors and learners instead");
  }
  DING_RETURN_IF_ERROR(CheckProgressFlags());
  DING_RETURN_IF_ERROR(MakeAbsolute({&FLAGS_exp_dir}));
  DING_RETURN_IF_ERROR(MakeLinkFlagsAbsolute());
  DING_ASSIGN_OR_RETURN(FLAGS_run_store, AbsoluteStoreUrl(FLAGS_run_store));
  if (FLAGS_resume && FLAGS_exp_dir.empty()) {
    return absl::InvalidArgumentError("--resume needs --exp_dir=FOLDER, the run to go on with");
  }
  if (!FLAGS_run_store.empty()) {
    if (!FLAGS_resume) {
      return absl::InvalidArgumentError(
          "--run_store is for a run that goes on: --resume is missing");
    }
    DING_RETURN_IF_ERROR(AdoptRun(FLAGS_run_store, FLAGS_exp_dir));
  }
  if (coordinates && FLAGS_resume && FLAGS_config.empty()) {
    DING_RETURN_IF_ERROR(ReadRunInfo(FLAGS_exp_dir).status());
    // Said first: to write the config of such a run anew would not help.
    DING_RETURN_IF_ERROR(CheckLogVersion(JoinPath(FLAGS_exp_dir, run_files::kJournal)));
    FLAGS_config = JoinPath(FLAGS_exp_dir, kConfigName);
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
  if (FLAGS_role == "all") DING_RETURN_IF_ERROR(CheckCanGroupLearners(*config));
  // gRPC aborts the program when it cannot start a thread.
  DING_RETURN_IF_ERROR(CheckThreads(GrpcTransport::kThreads));
  ReportGrpcErrors([](const std::string& line) { DING_LOG(WARNING) << line; });
  InterruptDeadline deadline;
  DING_RETURN_IF_ERROR(deadline.Start());
  GrpcTransport transport(LinkOptions(LinkRole()));
  CatchInterrupts();
  if (config.has_value()) {
    deadline.Enter([] { std::fprintf(stderr, "interrupted before the run began\n"); });
    DING_ASSIGN_OR_RETURN(config, PrepareConfig(*config));
    deadline.Enter(nullptr);
  }
  if (coordinates && !FLAGS_prepared && !config->system().derived().empty()) {
    std::fprintf(stderr, "what the config leaves to a run in several processes:\n  %s\n",
                 absl::StrJoin(config->system().derived(), "\n  ").c_str());
  }
  if (coordinates && !FLAGS_prepared) {
    const std::string endless = EndlessRunWarning(*config);
    if (!endless.empty()) std::fprintf(stderr, "%s\n", endless.c_str());
  }
  if (FLAGS_role == "all") return StartAll(*config, &transport);
  if (coordinates) return Coordinate(*config, &deadline, &transport);
  // The run goes on, or is resumed, without a worker that is in something that takes long. An
  // aggregator first ends its learners.
  if (FLAGS_role != "aggregator") deadline.Enter([] {});
  DING_RETURN_IF_ERROR(Work(config.has_value() ? ConfigDigest(*config) : "", &transport));
  // This tells the supervisor of this process that its work is done.
  return FLAGS_supervised_by == 0 ? 0 : kGoodbyeStatus;
}

int Main(int argc, char** argv) {
  std::vector<std::string> settings;
  const absl::Status taken = TakeSettings(&argc, argv, &settings);
  InitProgram(&argc, &argv,
              absl::StrReplaceAll(kHelp, {{"{run flags}\n", kRunFlagsHelp},
                                          {"{progress flags}\n", kProgressFlagsHelp},
                                          {"{link flags}\n", kLinkFlagsHelp},
                                          {"{monitor flags}\n", RunMonitorHelp()},
                                          {"{config help}\n", kHelpConfigHelp}}));
  if (!taken.ok()) return ReportFailure(taken);
  const ExitGuard guard(
      FLAGS_role == "all" || FLAGS_role == "coordinator"
          ? "there is no result. The progress up to here is in the run's folder: --resume"
          : "this worker has not done its work");
  const absl::Status entered = EnterCallersFolder();
  if (!entered.ok()) return ReportFailure(entered);
  if (FLAGS_list_modules) {
    std::printf("%s", ListModules().c_str());
    return 0;
  }
  for (std::string& setting : FlagSettings()) settings.push_back(std::move(setting));
  if (FLAGS_print_config && !FLAGS_config.empty()) {
    absl::StatusOr<ExperimentConfig> config = LoadConfig(settings);
    if (config.ok()) config = PrepareConfig(*config);
    if (!config.ok()) return ReportFailure(config.status());
    std::printf("%s", PrintConfigWithSources(*config).c_str());
    return 0;
  }
  const absl::StatusOr<int> status = RunRole(settings);
  if (!status.ok()) return ReportFailure(status.status());
  if (*status == kUnsavedStatus || InterruptSignal() == 0) return *status;
  return 128 + InterruptSignal();
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
