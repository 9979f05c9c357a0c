// Serves a run over HTTP while it works: its page (worker/watch), and its metrics for Prometheus at
// /metrics. The flag --http starts it (http_flag.cc).
//
// Metrics: the run hands over a copy of its status, at most four times a second. The next request
//          makes the text of it, for which the run may have to wait some milliseconds. Later ones
//          get the same text.
// Page:    it reads the run's folder, from the first request for it on.
//
// Ownership: owns its server, its page and their threads.
// Threads:   thread-safe.
#ifndef DING_WORKER_WORKER_PROMETHEUS_RUN_SERVER_H_
#define DING_WORKER_WORKER_PROMETHEUS_RUN_SERVER_H_

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
#include "ding_worker/worker/watch/watch_page.h"

namespace ding {

class RunServer : public RunMonitor {
 public:
  static constexpr absl::Duration kPeriod = absl::Milliseconds(250);

  // Returns the errors of HttpServer::Start(). Until the first Show(), requests for metrics get
  // status 503. The clock must outlive the server.
  static absl::StatusOr<std::unique_ptr<RunServer>> Start(const HttpServer::Options& options,
                                                          const Clock* clock = Clock::Real());

  void Begin(const std::string& folder, AskRun ask) override ABSL_LOCKS_EXCLUDED(mutex_);
  bool Due() override;
  void Show(const RunStatus& status, const StageTimes& stages) override ABSL_LOCKS_EXCLUDED(mutex_);

  HttpReply Handle(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);

  // "http://127.0.0.1:9400/"
  const std::string& url() const { return server_->url(); }

 private:
  static constexpr int64_t kNever = -1;

  RunServer(bool has_tokens, const Clock* clock) : has_tokens_(has_tokens), clock_(clock) {}
  HttpReply Metrics() ABSL_LOCKS_EXCLUDED(mutex_);
  // Null before Begin().
  absl::StatusOr<WatchPage*> Page() ABSL_LOCKS_EXCLUDED(mutex_);

  const bool has_tokens_;
  const Clock* const clock_;
  std::atomic<int64_t> shown_nanos_{kNever};
  Mutex mutex_;
  RunStatus status_ ABSL_GUARDED_BY(mutex_);
  StageTimes stages_ ABSL_GUARDED_BY(mutex_);
  std::string text_ ABSL_GUARDED_BY(mutex_);  // of status_; empty: not made yet
  std::string folder_ ABSL_GUARDED_BY(mutex_);
  AskRun ask_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<WatchPage> page_ ABSL_GUARDED_BY(mutex_);  // null: nobody has asked for it
  std::unique_ptr<HttpServer> server_;                       // last: it calls Handle()
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROMETHEUS_RUN_SERVER_H_
