// Serves the metrics of a run at /metrics, for Prometheus (http_flag.cc).
//
// The run hands over a copy of its status, at most four times a second. The next request makes the
// text of it, for which the run may have to wait some milliseconds. Later ones get the same text.
//
// Ownership: owns its server and the server's threads.
// Threads:   thread-safe.
#ifndef DING_WORKER_WORKER_PROMETHEUS_METRICS_SERVER_H_
#define DING_WORKER_WORKER_PROMETHEUS_METRICS_SERVER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/http/http_server.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/worker/program/run_monitor.h"

namespace ding {

class MetricsServer : public RunMonitor {
 public:
  static constexpr absl::Duration kPeriod = absl::Milliseconds(250);

  // Returns the errors of HttpServer::Start(). Until the first Show(), requests get status 503.
  // The clock must outlive the server.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const HttpServer::Options& options,
                                                              const Clock* clock = Clock::Real());

  bool Due() override;
  void Show(const RunStatus& status, const StageTimes& stages) override ABSL_LOCKS_EXCLUDED(mutex_);

  HttpReply Handle(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);

  // "http://127.0.0.1:9400/metrics"
  std::string url() const;

 private:
  static constexpr int64_t kNever = -1;

  explicit MetricsServer(const Clock* clock) : clock_(clock) {}

  const Clock* const clock_;
  std::atomic<int64_t> shown_nanos_{kNever};
  Mutex mutex_;
  RunStatus status_ ABSL_GUARDED_BY(mutex_);
  StageTimes stages_ ABSL_GUARDED_BY(mutex_);
  std::string text_ ABSL_GUARDED_BY(mutex_);  // of status_; empty: not made yet
  std::unique_ptr<HttpServer> server_;        // last: it calls Handle()
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROMETHEUS_METRICS_SERVER_H_
