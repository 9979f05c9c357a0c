// The page of tools/watch: curves, configs, videos, stages and logs of runs, in a browser.
//
//   GET /                       the page, and its files watch.js, watch.css, dygraph.*
//   GET /api/state              the runs and the metrics that they have
//   GET /api/curve?metric=...   a table of curves: x (step, iter, seconds), smooth, from, to, group,
//                               runs (numbers of runs, "0,2"; without it: all)
//   GET /api/configs            what differs between the configs; all=1: everything
//   GET /api/log?run=&log=&filter=    the end of a log
//   GET /api/workers?run=       the workers and buffers of a living parallel run
//   GET /video?run=&name=       a video
//   GET /api/histograms?run=    the tags of its histograms; with tag=: the histograms
//   GET /api/events             server-sent events: an event when a run has written something
//
//   POST /api/order?folder=&order=&argument=    an order of an operator (run_control.h)
//
// The page gets its state as JSON, and makes text of it, never HTML: tags, names and log lines are
// those of strangers.
//
// Ownership: owns the runs that it watches, and a thread that reads them.
// Threads:   thread-safe.
#ifndef DING_WORKER_WORKER_WATCH_WATCH_PAGE_H_
#define DING_WORKER_WORKER_WATCH_WATCH_PAGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/http/http_server.h"
#include "ding_worker/worker/watch/run_control.h"
#include "ding_worker/worker/watch/watched_run.h"

namespace ding {

class WatchPage {
 public:
  // Watches the runs in these folders, until it is destroyed. Without a control, the page shows
  // files only. `orders`: whether the server takes orders, for the page to offer them.
  //   kResourceExhausted  the system refuses a thread
  static absl::StatusOr<std::unique_ptr<WatchPage>> Start(
      const std::vector<std::string>& folders, std::unique_ptr<RunControl> control = nullptr,
      bool orders = false);
  WatchPage(const WatchPage&) = delete;
  WatchPage& operator=(const WatchPage&) = delete;
  ~WatchPage();

  HttpReply Handle(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  // For HttpServer::Options::post. The caller must be an operator.
  HttpReply HandlePost(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  WatchPage(const std::vector<std::string>& folders, std::unique_ptr<RunControl> control,
            bool orders);
  void Read() ABSL_LOCKS_EXCLUDED(mutex_);

  HttpReply State() ABSL_LOCKS_EXCLUDED(mutex_);
  HttpReply CurveReply(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  HttpReply Configs(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  HttpReply Log(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  HttpReply Video(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  HttpReply Histograms(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  HttpReply Workers(const HttpRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  HttpReply Events();
  // The run that a request names; null if there is none.
  WatchedRun* RunOf(const HttpRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<RunControl> control_;
  const bool orders_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;  // grows when a run has changed
  std::vector<WatchedRun> runs_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last, since it uses the other members
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_WATCH_WATCH_PAGE_H_
