// Finds metric sinks by the name in their config. Each process of a run makes the sinks of its
// config, beside its TensorBoard and CSV files: "json_lines", "mlflow", and sinks of your own.
//
// Example:
//   absl::StatusOr<std::shared_ptr<MetricSink>> WebPage(const SinkConfig& config,
//                                                       const my::WebPageParams& params,
//                                                       const SinkDeps& deps) { ... }
//   DING_REGISTER(SinkRegistry(), "web_page", WebPage, "shows metrics on a web page");
//
//   metrics { sink { type: "web_page" params { [type.googleapis.com/my.WebPageParams] { port: 80 } } } }
#ifndef DING_WORKER_METRICS_SINK_REGISTRY_H_
#define DING_WORKER_METRICS_SINK_REGISTRY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"

namespace ding {

// The dependencies of a sink, beside its config.
struct SinkDeps {
  std::string exp_dir;  // folder of the run
  // The process whose metrics these are: "serial", "coordinator", or the name of a worker. A sink
  // that writes a file should put the process into the file's name.
  std::string process;
};

using SinkDescriptor = Module<std::shared_ptr<MetricSink>, SinkConfig, const SinkDeps&>;
inline ModuleRegistry<SinkDescriptor>& SinkRegistry() {
  static auto* const registry = new ModuleRegistry<SinkDescriptor>("sink");
  return *registry;
}

// Makes the sink that `config` names, with the errors of ModuleRegistry::Create(). If the sink
// throws later, its Flush() returns the exception as an error: sinks never interrupt a run.
absl::StatusOr<std::shared_ptr<MetricSink>> create_sink(const SinkConfig& config,
                                                        const SinkDeps& deps);

}  // namespace ding

#endif  // DING_WORKER_METRICS_SINK_REGISTRY_H_
