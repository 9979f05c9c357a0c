// The metric sinks of a run that its config names (metrics.sink).
//
// Threads: thread-safe (a pure function).
#ifndef DING_WORKER_WORKER_RUN_RUN_SINKS_H_
#define DING_WORKER_WORKER_RUN_RUN_SINKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Makes the sinks of the config for the metrics of `process`. Replaces `*metrics`, which writes the files of the process, by
// a sink that passes everything to these sinks and, unless the config turns the files off, to the old sink. Its axis() is
// that of the config. Errors are those of create_sink(), and name the field.
absl::Status AddSinks(const ExperimentConfig& config, const std::string& exp_dir,
                      const std::string& process, std::shared_ptr<MetricSink>* metrics);

// Make the arguments of MetricSink::BeginRun() and EndRun(): the fields of the config that are not defaults, and the results
// "final_eval" (if there was an evaluation), "env_steps" and "wall_seconds".
RunDescription DescribeRunForSinks(const ExperimentConfig& config);
RunResults ResultsForSinks(std::optional<double> eval_value, int64_t env_steps,
                           double wall_seconds);

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_RUN_SINKS_H_
