// Asks the coordinators of living runs how they are, and sends them the orders of operators, for a
// page.
//
//   Status(folder) ──► the newest answer of the run; asks again if it is older than a second
//   Order(folder)  ──► coordinator/orders.jsonl ──► coordinator ──► its answer, also in that file
//
// A thread of its own asks, one after the other, because a coordinator may be slow or gone. Orders
// overtake questions.
//
// coordinator/orders.jsonl in the run's folder has two lines of JSON for each order: one before it
// is sent, and one with the answer. An order that cannot be written there is not sent.
//
//   {"time":1767225600.25,"who":"operator","token":3,"from":"127.0.0.1","order":"grow 2"}
//   {"time":1767225600.31,"who":"operator","token":3,"from":"127.0.0.1","order":"grow 2",
//    "done":true,"answer":"4 collectors are wanted"}
//
// Ownership: owns its thread, which its destructor joins: after the question under way.
// Threads:   thread-safe.
#ifndef DING_WORKER_WORKER_WATCH_RUN_CONTROL_H_
#define DING_WORKER_WORKER_WATCH_RUN_CONTROL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/http/http_server.h"
#include "ding_worker/worker/program/run_monitor.h"

namespace ding {

class RunControl {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(1);
  static constexpr size_t kMaxOrders = 16;  // that wait

  //   kResourceExhausted  the system refuses a thread
  static absl::StatusOr<std::unique_ptr<RunControl>> Start(AskRun ask);
  RunControl(const RunControl&) = delete;
  RunControl& operator=(const RunControl&) = delete;
  ~RunControl();

  // A JSON object, at once; an empty one if no coordinator of the run has listened:
  //   status  the answer to {"status"}; null until the first one
  //   age     seconds since that answer; null: there was none
  //   error   why the last question has no answer; "": it has one
  std::string Status(const std::string& folder) ABSL_LOCKS_EXCLUDED(mutex_);

  // Orders `words`: {"grow", N}, {"shrink", N}, {"drain", NAME} or {"stop"}. `who` is the caller.
  // The body of the reply comes when the run has answered: {"done": true, "answer": "..."}.
  HttpReply Order(const std::string& folder, const std::vector<std::string>& words,
                  const HttpRequest& who) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Known {
    bool waiting = false;         // a question is in the queue or under way
    std::optional<Timer> asked;   // when the last one ended
    std::optional<Timer> answer;  // when the last answer came
    std::string status = "null";
    std::string error;
  };

  explicit RunControl(AskRun ask) : ask_(std::move(ask)) {}
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void AskStatus(const std::string& folder) ABSL_LOCKS_EXCLUDED(mutex_);

  const AskRun ask_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // by folder
  std::deque<std::string> questions_ ABSL_GUARDED_BY(mutex_);   // folders
  std::deque<std::function<void()>> orders_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last, since it uses the other members
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_WATCH_RUN_CONTROL_H_
