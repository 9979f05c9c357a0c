#include "ding_worker/worker/prometheus/metrics_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/prometheus/prometheus_text.h"

namespace ding {

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const HttpServer::Options& options, const Clock* clock) {
  auto self = absl::WrapUnique(new MetricsServer(clock));
  DING_ASSIGN_OR_RETURN(self->server_,
                        HttpServer::Start(options, [me = self.get()](const HttpRequest& r) {
                          return me->Handle(r);
                        }));
  return self;
}

std::string MetricsServer::url() const { return absl::StrCat(server_->url(), "metrics"); }

bool MetricsServer::Due() {
  const int64_t shown = shown_nanos_.load(std::memory_order_relaxed);
  return shown == kNever || clock_->MonotonicNanos() - shown >= absl::ToInt64Nanoseconds(kPeriod);
}

void MetricsServer::Show(const RunStatus& status, const StageTimes& stages) {
  MutexLock lock(&mutex_);
  status_ = status;
  stages_ = stages;
  text_.clear();
  shown_nanos_.store(clock_->MonotonicNanos(), std::memory_order_relaxed);
}

HttpReply MetricsServer::Handle(const HttpRequest& request) {
  if (request.path == "/") return HttpReply::Text("The metrics of the run are at /metrics.\n");
  if (request.path != "/metrics") return HttpReply::NotFound();
  const int64_t shown = shown_nanos_.load(std::memory_order_relaxed);
  if (shown == kNever) return {503, "text/plain; charset=utf-8", "the run has not begun yet\n", {}};
  MutexLock lock(&mutex_);
  if (text_.empty()) text_ = PrometheusText(status_, stages_);
  const double age = absl::ToDoubleSeconds(absl::Nanoseconds(clock_->MonotonicNanos() - shown));
  return {200,
          kPrometheusType,
          absl::StrCat(text_, PrometheusGauge("status_age_seconds",
                                              "Seconds since the run updated these values; more "
                                              "than a round takes if it hangs.",
                                              age)),
          {}};
}

}  // namespace ding
