// //worker:serial: trains by one config, in one process. A program links it with the factories of
// the modules that it offers.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/policy_defaults.h"
#include "ding_worker/worker/config/run_budget.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/pipeline/serial_run.h"
#include "ding_worker/worker/program/interrupt.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/program/run_monitor.h"
#include "ding_worker/worker/program/train_flags.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/run_folder/run_folder.h"
#include "ding_worker/worker/run_folder/run_result.h"
#include "ding_worker/worker/serial_registry.h"
#include "gflags/gflags.h"

DEFINE_string(config, "", "experiment config, in protobuf text format");
DEFINE_string(exp_dir, "", "folder of the run; must not exist, unless the run is resumed");
DEFINE_bool(resume, false, "go on with the run in --exp_dir from its newest resume point");
DEFINE_bool(list_modules, false, "print the types that this program has, with help, and exit");
DEFINE_bool(print_config, false, "print the resolved config, and exit");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Trains a policy by an experiment config, in one process.

  serial --config=FILE [flags]

  --config=FILE         the experiment, in protobuf text format (see worker/configs/); also a pipe:
                        /dev/stdin, <(...)
  --set PATH=VALUE      changes a field of it; may stand several times:
                          --set policy.learn.batch_size=128 --set policy.params.learning_rate=1e-4
  --exp_dir=FOLDER      where the run is written; must not exist
                          (default: a new folder below the current one, named by exp_name)
  --resume              goes on with the run in --exp_dir (default: the folder exp_name), however it
                          ended, from its newest intact resume point; --config may be left out.
                          Only stop value, stoppers, budgets, policy.schedule and log periods may
                          differ from that run's
{run flags}
{progress flags}
{monitor flags}

  --print_config        prints the config with every default filled in, and where those of the
                        policy come from, and exits
  --list_modules        prints the types of envs, policies, buffers ... in this program, with a line
                        of help for each and the message that its params hold, and exits
{config help}
  --help                prints this page, and exits

The run folder gets checkpoints (ckpt/), TensorBoard events, CSV and text log (log/), the
resolved config and result.json. The last line on stdout is `result ` and the same JSON, with at most
five numbers of a list; a terminal shows a summary in its place. --v=1 adds a line per episode of an
evaluation to the text log. Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 save ckpt/ckpt_interrupt and a resume
point, and end the run within about a second; a second one ends it at once. A run that fails saves
ckpt/ckpt_exception.

Relative paths, in flags and in the config, are seen from the current folder (with `bazel run`: from
where that was called).

Exit code: 0 the run came to its end, 1 an error, 128 + signal it was interrupted.
)";

ProgressOptions MakeProgressOptions(const ExperimentConfig& config, const Pipeline& pipeline) {
  ProgressOptions options = ProgressByFlags();
  if (config.max_env_step() > 0) options.max_env_step = config.max_env_step();
  if (config.max_train_iter() > 0) options.max_train_iter = config.max_train_iter();
  options.has_env_steps = !IsSupervised(config);
  options.start = pipeline.progress();
  options.values = [&pipeline] { return pipeline.progress_values(); };
  return options;
}

// What shows the run while it works.
struct Shown {
  std::optional<Progress> progress;     // from the beginning of the run on
  const Pipeline* pipeline = nullptr;   // likewise
  std::unique_ptr<RunMonitor> monitor;  // null: there is none

  void Update(const ProgressState& state) {
    progress->Update(state);
    UpdateMonitor();
  }
  void UpdateMonitor() {
    if (monitor != nullptr && monitor->Due()) {
      monitor->Show(pipeline->status(), pipeline->stage_times());
    }
  }
};

SerialOptions MakeSerialOptions(Shown* shown, InterruptDeadline* deadline) {
  SerialOptions options;
  options.progress = [shown](const ProgressState& state) { shown->Update(state); };
  options.interrupted = IsInterrupted;
  options.overdue = IsOverdue;
  // A run that saves itself takes as long as the disk takes; a second signal ends it.
  options.ending = [deadline] { deadline->Enter(nullptr); };
  return options;
}

// Says what an interrupted run has saved, and how to go on with it.
void ExplainInterruption(const ExperimentConfig& config, const std::string& exp_dir,
                         const SerialResult& result) {
  const std::string folder = JoinPath(exp_dir, "ckpt");
  const bool resumes = config.resume().period_seconds() > 0 || config.resume().period_rounds() > 0;
  const int64_t position = IsSupervised(config) ? result.train_iter : result.env_step;
  const std::string program = google::ProgramInvocationName();
  if (!result.saved) {
    std::fprintf(stderr, "interrupted before there was anything to save\nbegin anew with: %s\n",
                 ResumeCommand(program, exp_dir).c_str());
    return;
  }
  std::fprintf(
      stderr, "interrupted at env step %lld, train iteration %lld; saved in %s: ckpt_interrupt%s\n",
      static_cast<long long>(result.env_step), static_cast<long long>(result.train_iter),
      folder.c_str(),
      resumes ? absl::StrCat(" and resume_", position).c_str()
              : ", but no resume point, since resume.period_seconds and period_rounds are 0");
  std::fprintf(stderr, "%s: %s\n", resumes ? "go on with" : "a new run can begin with its policy",
               resumes ? ResumeCommand(program, exp_dir).c_str()
                       : absl::StrCat("--set policy.learn.learner.hook.load_ckpt_before_run=",
                                      ShellWord(JoinPath(folder, "ckpt_interrupt")))
                             .c_str());
}

// Writes and prints the result, after the run.
absl::Status Report(SerialRun* run, const SerialResult& serial) {
  DING_ASSIGN_OR_RETURN(const std::string json, run->WriteResult(serial));
  const bool on_terminal = !serial.interrupted && isatty(STDOUT_FILENO) == 1;
  std::printf("%s", ResultText(json, run->path(), on_terminal).c_str());
  std::fflush(stdout);
  if (serial.interrupted) ExplainInterruption(run->config(), run->path(), serial);
  return absl::OkStatus();
}

// For another thread, when an interrupt finds the run in something that takes long.
void EndInTheMiddle(SerialRun* run, Progress* progress) {
  SerialResult serial;
  const absl::Status status = run->pipeline()->SaveLastSafePoint(&serial);
  progress->Clear();  // Finish() would ask the run, which is not to be asked now.
  if (!status.ok()) ReportFailure(status);
  run->FlushLogs();
  const absl::Status reported = status.ok() ? Report(run, serial) : absl::OkStatus();
  if (!reported.ok()) ReportFailure(reported);
}

// Says what a run that failed has saved, and how to begin with it.
void ExplainFailure(const std::string& exp_dir, const SerialResult& result) {
  if (result.saved_as.empty()) return;
  const std::string path = JoinPath(JoinPath(exp_dir, "ckpt"), result.saved_as);
  std::fprintf(stderr,
               "failed at env step %lld; the policy of train iteration %lld is saved in %s\n"
               "a new run can begin with it: --set policy.learn.learner.hook.load_ckpt_before_run="
               "%s\n",
               static_cast<long long>(result.env_step), static_cast<long long>(result.train_iter),
               path.c_str(), ShellWord(path).c_str());
}

void Tell(const std::string& sentence) {
  if (!sentence.empty()) std::fprintf(stderr, "%s\n", sentence.c_str());
}

// Trains a run that is new, or goes on with one of an earlier process.
absl::Status Train(SerialRun* run, Shown* shown, InterruptDeadline* deadline) {
  DING_RETURN_IF_ERROR(run->SetUp(MakeSerialOptions(shown, deadline)));
  Tell(run->begin_text());
  std::fprintf(stderr, "run folder: %s\n", run->path().c_str());
  Tell(EndlessRunWarning(run->config()));
  Progress& progress =
      shown->progress.emplace(MakeProgressOptions(run->config(), *run->pipeline()));
  shown->pipeline = run->pipeline();
  if (shown->monitor != nullptr) shown->monitor->Begin(run->path(), nullptr);
  shown->UpdateMonitor();
  deadline->Enter([&] { EndInTheMiddle(run, &progress); });
  SerialResult serial;
  const absl::Status status = run->pipeline()->Run(&serial);
  progress.Finish();
  if (!status.ok()) ExplainFailure(run->path(), serial);
  run->FlushLogs();
  const absl::Status reported = status.ok() ? Report(run, serial) : status;
  // What is left is to close the envs.
  deadline->Enter([] {});
  return reported;
}

void ExplainCrashesOfEnvs(const ExperimentConfig& config) {
  const std::string& type = config.env().manager().type();
  if (type != "base" && type != "async_thread") return;
  ExplainCrashes(absl::StrCat("the envs run in this process (env.manager.type \"", type,
                              "\"). If one of them has crashed, --set env.manager.type=subprocess "
                              "survives it: each env then has a process, which is replaced"));
}

absl::Status Begin(const ExperimentConfig& config, InterruptDeadline* deadline) {
  ExplainCrashesOfEnvs(config);
  Shown shown;
  DING_ASSIGN_OR_RETURN(shown.monitor, StartRunMonitor());
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SerialRun> run,
                        SerialRun::Create(config, FLAGS_exp_dir));
  deadline->Enter([&run] {
    run->Remove();
    std::fprintf(stderr, "interrupted before the run began: nothing is saved\n");
  });
  return Train(run.get(), &shown, deadline);
}

absl::StatusOr<ExperimentConfig> LoadConfig(const std::string& path,
                                            const std::vector<std::string>& settings) {
  DING_ASSIGN_OR_RETURN(const std::string text, ReadConfigText(path));
  return LoadRunConfig(text, path, settings);
}

// Finds the folder of the run to resume, and the run's config if no other is given.
absl::Status FindRunToResume(const std::vector<std::string>& settings, std::string* exp_dir,
                             ExperimentConfig* config) {
  *exp_dir = FLAGS_exp_dir;
  if (exp_dir->empty() && FLAGS_config.empty()) {
    return absl::InvalidArgumentError(
        "--resume needs --exp_dir=FOLDER of the run, or its --config; see --help");
  }
  const std::string path = FLAGS_config.empty() ? JoinPath(*exp_dir, kRunConfigName) : FLAGS_config;
  if (FLAGS_config.empty() && !PathExists(path)) {
    return absl::NotFoundError(
        absl::StrCat("there is no run to resume in '", *exp_dir, "': '", path, "' is missing"));
  }
  DING_ASSIGN_OR_RETURN(*config, LoadConfig(path, settings));
  if (exp_dir->empty()) *exp_dir = config->exp_name();
  DING_RETURN_IF_ERROR(MakeAbsolute({exp_dir}));
  if (IsDirectory(*exp_dir)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no run to resume: no folder '", *exp_dir, "'"));
}

absl::Status Resume(const std::string& exp_dir, const ExperimentConfig& config,
                    InterruptDeadline* deadline) {
  ExplainCrashesOfEnvs(config);
  deadline->Enter(
      [] { std::fprintf(stderr, "interrupted before the run went on: it is as it was\n"); });
  Shown shown;
  DING_ASSIGN_OR_RETURN(shown.monitor, StartRunMonitor());
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SerialRun> run, SerialRun::Reopen(config, exp_dir));
  return Train(run.get(), &shown, deadline);
}

int ExitCode(const absl::Status& status) {
  if (!status.ok()) return ReportFailure(status);
  return InterruptSignal() == 0 ? 0 : 128 + InterruptSignal();
}

int Main(int argc, char** argv) {
  std::vector<std::string> settings;
  const absl::Status taken = TakeSettings(&argc, argv, &settings);
  InitProgram(&argc, &argv,
              absl::StrReplaceAll(kHelp, {{"{run flags}\n", kRunFlagsHelp},
                                          {"{progress flags}\n", kProgressFlagsHelp},
                                          {"{monitor flags}\n", RunMonitorHelp()},
                                          {"{config help}\n", kHelpConfigHelp}}));
  if (!taken.ok()) return ReportFailure(taken);
  const ExitGuard guard(
      "there is no result. The progress up to here is in the run's folder: --resume");
  const absl::Status entered = EnterCallersFolder();
  if (!entered.ok()) return ReportFailure(entered);
  const absl::Status progress = CheckProgressFlags();
  if (!progress.ok()) return ReportFailure(progress);
  if (FLAGS_list_modules) {
    std::printf("%s", ListSerialModules().c_str());
    return 0;
  }
  for (std::string& setting : RunFlagSettings()) settings.push_back(std::move(setting));
  InterruptDeadline deadline;
  if (FLAGS_resume) {
    std::string exp_dir;
    ExperimentConfig config;
    absl::Status status = FindRunToResume(settings, &exp_dir, &config);
    if (status.ok()) status = deadline.Start();
    CatchInterrupts();
    if (status.ok()) status = Resume(exp_dir, config, &deadline);
    return ExitCode(status);
  }
  if (FLAGS_config.empty()) {
    return ReportFailure(absl::InvalidArgumentError("--config is missing; see --help"));
  }
  const absl::StatusOr<ExperimentConfig> config = LoadConfig(FLAGS_config, settings);
  if (!config.ok()) return ReportFailure(config.status());
  if (FLAGS_print_config) {
    std::printf("%s", PrintConfigWithSources(*config).c_str());
    return 0;
  }
  const absl::Status watched = deadline.Start();
  if (!watched.ok()) return ReportFailure(watched);
  CatchInterrupts();
  return ExitCode(Begin(*config, &deadline));
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
