// A run in one process with its folder: what the serial program and the Python package share.
//
//   Create() or Reopen() ──► SetUp() ──► pipeline()->Run() ──► WriteResult()
//
// Threads: thread-compatible. At most one such object lives in a process, since it has the logs.
//
// Example:
//   DING_ASSIGN_OR_RETURN(ExperimentConfig config, LoadRunConfig(text, "a.textproto", {}));
//   DING_ASSIGN_OR_RETURN(auto run, SerialRun::Create(config, /*exp_dir=*/""));
//   DING_RETURN_IF_ERROR(run->SetUp({}));
//   SerialResult result;
//   DING_RETURN_IF_ERROR(run->pipeline()->Run(&result));
//   DING_ASSIGN_OR_RETURN(const std::string json, run->WriteResult(result));
#ifndef DING_WORKER_WORKER_PIPELINE_SERIAL_RUN_H_
#define DING_WORKER_WORKER_PIPELINE_SERIAL_RUN_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/pipeline.h"
#include "ding_worker/worker/run_folder/run_checkpoints.h"
#include "ding_worker/worker/run_folder/run_folder.h"

namespace ding {

// The config in the folder of a run.
inline constexpr char kRunConfigName[] = "total_config.textproto";

// As ParseExperimentConfig(), with paths from the root: the run may go on in another folder.
absl::StatusOr<ExperimentConfig> LoadRunConfig(absl::string_view text, const std::string& source,
                                               absl::Span<const std::string> settings);

class SerialRun {
 public:
  // Makes the folder of a new run, as RunFolder::Create() does.
  static absl::StatusOr<std::unique_ptr<SerialRun>> Create(const ExperimentConfig& config,
                                                           const std::string& exp_dir);
  // Goes on with the run in `exp_dir` from its newest resume point. Without one, it begins anew;
  // old checkpoints are set aside.
  //   kInvalidArgument  `config` is that of another experiment
  //   and the errors of RunFolder::Reopen()
  static absl::StatusOr<std::unique_ptr<SerialRun>> Reopen(const ExperimentConfig& config,
                                                           const std::string& exp_dir);

  // Makes the pipeline, and restores its state. Sets `exp_dir`, `metrics` and `describe` of the
  // options. After an error, the folder of a new run is removed.
  absl::Status SetUp(SerialOptions options);
  // Null before SetUp().
  Pipeline* pipeline() { return pipeline_.get(); }

  const ExperimentConfig& config() const { return config_; }
  const std::string& path() const { return folder_->path(); }
  // After SetUp(): where a run that was reopened begins. Empty: the run is new.
  const std::string& begin_text() const { return begin_text_; }

  // Removes the folder of a new run that has not begun. To be called instead of anything else.
  void Remove();
  // Flushes the logs. An error is a warning.
  void FlushLogs();
  // Writes result.json, and waits for space on a full disk until `interrupted`. Returns its line.
  absl::StatusOr<std::string> WriteResult(const SerialResult& result);

 private:
  SerialRun(ExperimentConfig config, std::unique_ptr<RunFolder> folder, bool is_new)
      : config_(std::move(config)), folder_(std::move(folder)), is_new_(is_new) {}
  absl::Status MakePipeline();

  const ExperimentConfig config_;
  SerialOptions options_;
  std::unique_ptr<RunFolder> folder_;  // null: removed
  const bool is_new_;
  std::optional<ResumePoint> point_;
  std::string begin_text_;
  std::unique_ptr<Pipeline> pipeline_;  // last, since it uses the other members
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PIPELINE_SERIAL_RUN_H_
