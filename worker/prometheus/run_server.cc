#include "ding_worker/worker/prometheus/run_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/prometheus/prometheus_text.h"
#include "ding_worker/worker/watch/run_control.h"

namespace ding {
namespace {

HttpReply Unavailable(const std::string& why) {
  return {503, "text/plain; charset=utf-8", absl::StrCat(why, "\n"), {}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunServer>> RunServer::Start(const HttpServer::Options& options,
                                                            const Clock* clock) {
  auto self = absl::WrapUnique(new RunServer(!options.link.token_file.empty(), clock));
  HttpServer::Options with_orders = options;
  with_orders.post = [me = self.get()](const HttpRequest& request) {
    const auto page = me->Page();
    return page.ok() && *page != nullptr ? (*page)->HandlePost(request) : HttpReply::NotFound();
  };
  DING_ASSIGN_OR_RETURN(self->server_,
                        HttpServer::Start(with_orders, [me = self.get()](const HttpRequest& r) {
                          return me->Handle(r);
                        }));
  return self;
}

void RunServer::Begin(const std::string& folder, AskRun ask) {
  MutexLock lock(&mutex_);
  folder_ = folder;
  ask_ = std::move(ask);
}

bool RunServer::Due() {
  const int64_t shown = shown_nanos_.load(std::memory_order_relaxed);
  return shown == kNever || clock_->MonotonicNanos() - shown >= absl::ToInt64Nanoseconds(kPeriod);
}

void RunServer::Show(const RunStatus& status, const StageTimes& stages) {
  MutexLock lock(&mutex_);
  status_ = status;
  stages_ = stages;
  text_.clear();
  shown_nanos_.store(clock_->MonotonicNanos(), std::memory_order_relaxed);
}

absl::StatusOr<WatchPage*> RunServer::Page() {
  MutexLock lock(&mutex_);
  if (page_ != nullptr || folder_.empty()) return page_.get();
  std::unique_ptr<RunControl> control;
  if (ask_ != nullptr) {
    DING_ASSIGN_OR_RETURN(control, RunControl::Start(ask_));
  }
  const bool orders = has_tokens_ && control != nullptr;
  DING_ASSIGN_OR_RETURN(page_, WatchPage::Start({folder_}, std::move(control), orders));
  return page_.get();
}

HttpReply RunServer::Handle(const HttpRequest& request) {
  if (request.path == "/metrics") return Metrics();
  const absl::StatusOr<WatchPage*> page = Page();
  if (!page.ok()) return Unavailable(std::string(page.status().message()));
  if (*page != nullptr) return (*page)->Handle(request);
  if (request.path != "/") return HttpReply::NotFound();
  return HttpReply::Text(
      "The metrics of this process are at /metrics. A serial run and a coordinator have a page "
      "here, from their beginning on.\n");
}

HttpReply RunServer::Metrics() {
  const int64_t shown = shown_nanos_.load(std::memory_order_relaxed);
  if (shown == kNever) return Unavailable("the run has not begun yet");
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
