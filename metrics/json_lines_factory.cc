// Registers the sink "json_lines" (metrics/json_lines.h): a file of JSON lines for each process of
// a run.
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/metrics/json_lines.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"
#include "ding_worker/metrics/sink_registry.h"

namespace ding {
namespace {

absl::StatusOr<std::shared_ptr<MetricSink>> Create(const SinkConfig& /*config*/,
                                                   const NoParams& /*params*/,
                                                   const SinkDeps& deps) {
  const std::string folder = JoinPath(deps.exp_dir, "log");
  DING_RETURN_IF_ERROR(CreateDirectories(folder));
  JsonLinesSink::Options options;
  options.path = JoinPath(folder, absl::StrCat(deps.process, ".jsonl"));
  DING_ASSIGN_OR_RETURN(std::shared_ptr<MetricSink> sink, JsonLinesSink::Create(options));
  return sink;
}

DING_REGISTER(SinkRegistry(), "json_lines", Create,
              "JSON, a line per value, in log/<process>.jsonl of the run's folder");

}  // namespace
}  // namespace ding
