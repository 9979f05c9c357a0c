// //worker:serial: trains by one config, in one process. Links with the factories of the modules
// that it is to know.

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/progress.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/interrupt.h"
#include "ding_worker/worker/program.h"
#include "ding_worker/worker/registry.h"
#include "ding_worker/worker/run_folder.h"
#include "ding_worker/worker/run_result.h"
#include "ding_worker/worker/serial_pipeline.h"
#include "ding_worker/worker/text_config.h"
#include "gflags/gflags.h"
#include "glog/logging.h"

DEFINE_string(config, "", "experiment config, in protobuf text format");
DEFINE_int64(seed, -1, "seed of the run; overrides the config's");
DEFINE_string(exp_dir, "", "folder of the run; must not exist");
DEFINE_int64(max_env_step, -1, "env steps after which the run ends; overrides the config's");
DEFINE_int64(max_train_iter, -1,
             "train iterations after which the run ends; overrides the config's");
DEFINE_bool(list_modules, false, "print what types this program knows, and exit");
DEFINE_bool(print_config, false, "print the resolved config, and exit");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Trains a policy by an experiment config, in one process.

  serial --config=FILE [flags]

  --config=FILE         the experiment, in protobuf text format (see worker/configs/)
  --set PATH=VALUE      changes a field of it; may stand several times:
                          --set policy.learn.batch_size=128 --set policy.params.learning_rate=1e-4
  --seed=N              seed of the run
  --exp_dir=FOLDER      where the run is written; must not exist
                          (default: a new folder below the current one, named by exp_name)
  --max_env_step=N      ends the run after N env steps
  --max_train_iter=N    ends the run after N train iterations

  --print_config        prints the config with every default filled in, and exits
  --list_modules        prints the types of envs, policies, buffers ... in this program, and exits
  --help                prints this page, and exits

The run folder gets checkpoints (ckpt/), TensorBoard events, CSV and text log (log/), the
resolved config and result.json. The last line on stdout is `result ` and the same JSON. Ctrl-C
saves ckpt/ckpt_interrupt and ends the run; a second Ctrl-C ends it at once.

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
  return settings;
}

ProgressOptions MakeProgressOptions(const ExperimentConfig& config) {
  ProgressOptions options = ProgressTo(stderr);
  if (config.max_env_step() > 0) options.max_env_step = config.max_env_step();
  if (config.max_train_iter() > 0) options.max_train_iter = config.max_train_iter();
  return options;
}

SerialOptions MakeSerialOptions(const RunFolder& folder, std::optional<Progress>* progress) {
  SerialOptions options;
  options.exp_dir = folder.path();
  options.metrics = folder.metrics();
  options.progress = [progress](const ProgressState& state) { (*progress)->Update(state); };
  options.interrupted = [] { return InterruptSignal() != 0; };
  return options;
}

// Makes the pipeline; if it cannot be made, the folder, which holds nothing yet, goes again.
absl::StatusOr<std::unique_ptr<SerialPipeline>> MakePipeline(const ExperimentConfig& config,
                                                             const SerialOptions& options,
                                                             std::unique_ptr<RunFolder>* folder) {
  absl::StatusOr<std::unique_ptr<SerialPipeline>> pipeline =
      SerialPipeline::Create(config, options);
  if (pipeline.ok()) return pipeline;
  const std::string path = (*folder)->path();
  folder->reset();
  absl::Status status = pipeline.status();
  const absl::Status removed = RemoveRecursively(path);
  if (!removed.ok()) LOG(WARNING) << removed.message();
  return status;
}

RunResult MakeRunResult(const SerialResult& serial, double wall_seconds) {
  RunResult result;
  result.stop = serial.stop;
  result.env_step = serial.env_step;
  result.train_iter = serial.train_iter;
  result.eval_value = serial.eval_value;
  result.eval_value_raw = serial.eval_value_raw;
  result.wall_seconds = wall_seconds;
  result.finish_time = Clock::Real()->Now();
  return result;
}

absl::Status Train(const ExperimentConfig& config) {
  const Timer timer(Clock::Real());
  DING_ASSIGN_OR_RETURN(std::unique_ptr<RunFolder> folder,
                        RunFolder::Create(FLAGS_exp_dir, config.exp_name(), Clock::Real()));
  DING_RETURN_IF_ERROR(folder->WriteText("total_config.textproto", PrintTextConfig(config)));
  std::optional<Progress> progress;
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SerialPipeline> pipeline,
                        MakePipeline(config, MakeSerialOptions(*folder, &progress), &folder));
  std::fprintf(stderr, "run folder: %s\n", folder->path().c_str());

  progress.emplace(MakeProgressOptions(config));
  SerialResult serial;
  const absl::Status status = pipeline->Run(&serial);
  progress->Finish();
  if (!status.ok()) LOG(INFO) << "the run failed: " << status.message();
  const absl::Status logs = folder->FlushLogs();
  if (!logs.ok()) LOG(WARNING) << "some of the logs could not be written: " << logs.message();
  DING_RETURN_IF_ERROR(status);

  const std::string json = ToJson(MakeRunResult(serial, timer.Seconds()));
  DING_RETURN_IF_ERROR(folder->WriteText("result.json", absl::StrCat(json, "\n")));
  std::printf("result %s\n", json.c_str());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  std::vector<std::string> settings;
  const absl::Status taken = TakeSettings(&argc, argv, &settings);
  InitProgram(&argc, &argv, kHelp);
  if (!taken.ok()) return ReportFailure(taken);
  if (FLAGS_list_modules) {
    std::printf("%s", ListModules().c_str());
    return 0;
  }
  if (FLAGS_config.empty()) {
    return ReportFailure(absl::InvalidArgumentError("--config is missing; see --help"));
  }
  for (std::string& setting : FlagSettings()) settings.push_back(std::move(setting));
  const absl::StatusOr<ExperimentConfig> config = LoadExperimentConfig(FLAGS_config, settings);
  if (!config.ok()) return ReportFailure(config.status());
  if (FLAGS_print_config) {
    std::printf("%s", PrintTextConfig(*config).c_str());
    return 0;
  }
  CatchInterrupts();
  const absl::Status status = Train(*config);
  if (!status.ok()) return ReportFailure(status);
  return InterruptSignal() == 0 ? 0 : 128 + InterruptSignal();
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
