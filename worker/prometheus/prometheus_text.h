// The metrics of a run in the text format of Prometheus, version 0.0.4, for its scrapes.
//
// The text format is written here: Debian's prometheus-cpp-dev would replace 25 lines, and brings
// eight packages, with a web server and curl, to all who build a program.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_PROMETHEUS_PROMETHEUS_TEXT_H_
#define DING_WORKER_WORKER_PROMETHEUS_PROMETHEUS_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/time_histogram.h"

namespace ding {

// The media type of the text.
inline constexpr char kPrometheusType[] = "text/plain; version=0.0.4; charset=utf-8";

// What is not known is left out. docs/how_to/metrics_by_prometheus.md lists the metrics.
std::string PrometheusText(const RunStatus& status, const StageTimes& stages);

// One gauge without labels.
std::string PrometheusGauge(absl::string_view name, absl::string_view help, double value);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROMETHEUS_PROMETHEUS_TEXT_H_
