#include "ding_worker/worker/pipeline/serial_run.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/config/run_budget.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/pipeline/supervised_pipeline.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/run_folder/run_result.h"
#include "ding_worker/worker/run_folder/save_outage.h"
#include "ding_worker/worker/setup/experiment_setup.h"

namespace ding {
namespace {

constexpr char kProcess[] = "serial";

RunResult MakeRunResult(const SerialResult& serial) {
  RunResult result;
  result.stop = serial.stop;
  result.why = serial.why;
  result.env_step = serial.env_step;
  result.train_iter = serial.train_iter;
  result.eval_value = serial.eval_value;
  result.eval_value_raw = serial.eval_value_raw;
  result.best = serial.best;
  result.confirmation = serial.confirmation;
  result.metric = serial.metric;
  result.wall_seconds = serial.wall_seconds;
  result.finish_time = Clock::Real()->Now();
  return result;
}

bool HasSchedule(const ExperimentConfig& config, absl::string_view field) {
  return absl::c_any_of(config.policy().schedule(), [&](const FieldScheduleConfig& schedule) {
    return schedule.field() == field;
  });
}

// Schedules may differ, since their values are set anew in each round. A field without one would
// keep the value that its last schedule has left in the state of the run.
absl::Status CheckSameButSchedules(ExperimentConfig saved, const ExperimentConfig& config) {
  for (const FieldScheduleConfig& schedule : saved.policy().schedule()) {
    if (HasSchedule(config, schedule.field())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the run to resume has a schedule of '", schedule.field(),
        "', and the config has none: write one into policy.schedule, such as type \"constant\""));
  }
  *saved.mutable_policy()->mutable_schedule() = config.policy().schedule();
  return CheckSameExperiment(saved, config);
}

}  // namespace

absl::StatusOr<ExperimentConfig> LoadRunConfig(absl::string_view text, const std::string& source,
                                               absl::Span<const std::string> settings) {
  DING_ASSIGN_OR_RETURN(ExperimentConfig config, ParseExperimentConfig(text, source, settings));
  DING_RETURN_IF_ERROR(MakePathsAbsolute(&config));
  // The config of a run that goes on has them already.
  if (Basename(source) != kRunConfigName) DING_RETURN_IF_ERROR(KeepPythonFolders(&config));
  return config;
}

absl::StatusOr<std::unique_ptr<SerialRun>> SerialRun::Create(const ExperimentConfig& config,
                                                             const std::string& exp_dir) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<RunFolder> folder,
                        RunFolder::Create(exp_dir, config.exp_name(), kProcess, Clock::Real()));
  return absl::WrapUnique(new SerialRun(config, std::move(folder), /*is_new=*/true));
}

absl::StatusOr<std::unique_ptr<SerialRun>> SerialRun::Reopen(const ExperimentConfig& config,
                                                             const std::string& exp_dir) {
  DING_ASSIGN_OR_RETURN(std::optional<ResumePoint> point, OpenNewestResumePoint(exp_dir));
  LogSizes logs;
  if (point.has_value()) {
    DING_ASSIGN_OR_RETURN(const ExperimentConfig saved,
                          ConfigOfCheckpoint(point->checkpoint.info()));
    DING_RETURN_IF_ERROR(CheckSameButSchedules(saved, config));
    logs = LogsOfCheckpoint(point->checkpoint.info());
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<RunFolder> folder,
                        RunFolder::Reopen(exp_dir, logs, kProcess, Clock::Real()));
  auto run = absl::WrapUnique(new SerialRun(config, std::move(folder), /*is_new=*/false));
  if (point.has_value()) {
    DING_RETURN_IF_ERROR(CleanUpCheckpoints(exp_dir, point->position));
    run->begin_text_ =
        absl::StrCat("resuming at ", IsSupervised(config) ? "train iteration" : "env step", " ",
                     point->position);
    run->point_ = std::move(point);
  } else {
    DING_ASSIGN_OR_RETURN(const std::string aside, SetCheckpointsAside(exp_dir));
    run->begin_text_ =
        absl::StrCat(exp_dir, " has no resume point: beginning anew",
                     aside.empty() ? "" : absl::StrCat("; its checkpoints are now in ", aside));
  }
  return run;
}

absl::Status SerialRun::SetUp(SerialOptions options) {
  options_ = std::move(options);
  options_.exp_dir = folder_->path();
  options_.metrics = folder_->metrics();
  options_.describe = [this](CheckpointInfo* info) -> absl::Status {
    DING_ASSIGN_OR_RETURN(const LogSizes logs, folder_->MeasureLogs());
    DescribeLogs(logs, info);
    return absl::OkStatus();
  };
  const absl::Status status = MakePipeline();
  if (!status.ok() && is_new_) Remove();
  return status;
}

absl::Status SerialRun::MakePipeline() {
  DING_RETURN_IF_ERROR(folder_->WriteText(kRunConfigName, PrintTextConfig(config_)));
  DING_ASSIGN_OR_RETURN(pipeline_, CreatePipeline(config_, options_));
  if (!point_.has_value()) return absl::OkStatus();
  DING_RETURN_IF_ERROR(pipeline_->Resume(point_->checkpoint));
  point_.reset();
  const ProgressState at = pipeline_->progress();
  const std::string spent = SpentBudgets(config_, at.env_step, at.train_iter);
  if (!spent.empty()) absl::StrAppend(&begin_text_, "\n", spent);
  return absl::OkStatus();
}

void SerialRun::Remove() {
  const std::string path = folder_->path();
  folder_.reset();
  const absl::Status removed = RemoveRecursively(path);
  if (!removed.ok()) DING_LOG(WARNING) << removed.message();
}

void SerialRun::FlushLogs() {
  const absl::Status logs = folder_->FlushLogs();
  if (!logs.ok()) DING_LOG(WARNING) << "some of the logs could not be written: " << logs.message();
}

absl::StatusOr<std::string> SerialRun::WriteResult(const SerialResult& result) {
  const std::string json = ToJson(MakeRunResult(result));
  const auto write = [&] { return folder_->WriteText("result.json", absl::StrCat(json, "\n")); };
  DING_RETURN_IF_ERROR(SaveOutage(Clock::Real()).Wait("result.json", write, options_.interrupted));
  return json;
}

}  // namespace ding
