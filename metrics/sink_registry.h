// Finds metric sinks by the name in their config. Each process of a run makes the sinks of its
// config, beside its TensorBoard and CSV files: "json_lines", "mlflow", and sinks of your own.
//
// Example:
//   SinkDescriptor WebPage() {
//     SinkDescriptor descriptor;
//     descriptor.check_params = TakesParams<my::WebPageParams>;
//     descriptor.create = [](const SinkConfig& config, const SinkDeps& deps) { ... };
//     return descriptor;
//   }
//   DING_REGISTER(SinkRegistry(), "web_page", WebPage(), "shows metrics on a web page");
//
//   metrics { sink { type: "web_page" params { [type.googleapis.com/my.WebPageParams] { port: 80 } } } }
#ifndef DING_WORKER_METRICS_SINK_REGISTRY_H_
#define DING_WORKER_METRICS_SINK_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/sink.pb.h"

namespace ding {

// The dependencies of a sink, beside its config.
struct SinkDeps {
  std::string exp_dir;  // folder of the run
  // The process whose metrics these are: "serial", "coordinator", or the name of a worker. A sink
  // that writes a file should put it into the name.
  std::string process;
};

struct SinkDescriptor {
  // Checks config.params before a run begins and before `create` is called; if it is empty, only
  // `create` decides (base/params.h).
  ParamsCheck check_params;
  std::function<absl::StatusOr<std::shared_ptr<MetricSink>>(const SinkConfig&, const SinkDeps&)>
      create;
};
Registry<SinkDescriptor>& SinkRegistry();

// Makes the sink that `config` names. It turns an exception of the sink into an error of its
// Flush(), since errors of sinks never interrupt a run.
//   kNotFound         no linked sink has this name; the message lists the names that are linked
//   kInvalidArgument  the type refuses the parameters
//   kInternal         the factory threw or returned null; the message names the type
absl::StatusOr<std::shared_ptr<MetricSink>> create_sink(const SinkConfig& config,
                                                        const SinkDeps& deps);

}  // namespace ding

#endif  // DING_WORKER_METRICS_SINK_REGISTRY_H_
