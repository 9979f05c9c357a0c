// Registers the sink "mlflow" (metrics/mlflow.h): a run of MLflow's file store for each process of
// a run.
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/mlflow.h"
#include "ding_worker/metrics/mlflow.pb.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"

namespace ding {
namespace {

absl::Status Check(const GivenParams& given) {
  MlflowSinkParams params;
  DING_RETURN_IF_ERROR(ReadParams(given, &params));
  if (!params.experiment().empty() && !params.folder().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "MlflowSinkParams: folder or experiment is empty, expected a path and a name");
}

absl::StatusOr<std::shared_ptr<MetricSink>> Create(const SinkConfig& /*config*/,
                                                   const MlflowSinkParams& params,
                                                   const SinkDeps& deps) {
  const absl::string_view run = Basename(deps.exp_dir);
  const std::string beside = deps.exp_dir.substr(0, deps.exp_dir.size() - run.size());
  const std::string log = JoinPath(deps.exp_dir, "log");
  DING_RETURN_IF_ERROR(CreateDirectories(log));
  MlflowSink::Options options;
  options.folder = params.folder()[0] == '/' ? params.folder() : JoinPath(beside, params.folder());
  options.experiment = params.experiment();
  options.run_name =
      deps.process == "serial" ? std::string(run) : absl::StrCat(run, "/", deps.process);
  options.run_id_file = JoinPath(log, absl::StrCat(deps.process, "_mlflow_run_id.txt"));
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> sink, MlflowSink::Create(options));
  return sink;
}

DING_REGISTER(SinkRegistry(), "mlflow", SinkDescriptor(Create, Check),
              "a run in MLflow's file store mlruns/, beside the run's folder");

}  // namespace
}  // namespace ding
