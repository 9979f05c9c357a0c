// Shows a run to others while it works: to a browser, or to Prometheus. The library that does this
// and its flag (//worker/prometheus:http_flag) are only in programs that link it. The programs that
// train call these functions.
//
// Threads: LinkRunMonitor() is called before main(), the other functions from main(). A RunMonitor
//          is called by the thread of the run.
#ifndef DING_WORKER_WORKER_PROGRAM_RUN_MONITOR_H_
#define DING_WORKER_WORKER_PROGRAM_RUN_MONITOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/time_histogram.h"

namespace ding {

// Asks the coordinator at `address` as an operator: {"status"} for its status as JSON, {"grow", "2"},
// {"shrink", "1"}, {"drain", NAME} or {"stop"} for its answer. May take seconds. AskerOf() makes one
// (worker/processes/ask_operator.h).
using AskRun = std::function<absl::StatusOr<std::string>(const std::string& address,
                                                         const std::vector<std::string>& words)>;

class RunMonitor {
 public:
  virtual ~RunMonitor() = default;
  // Shows this folder, into which the process writes the run. Called once, by a serial run or a
  // coordinator, before the first Show(). `ask` may be null: nobody answers.
  virtual void Begin(const std::string& folder, AskRun ask) = 0;
  // Whether to call Show() again. Cheap.
  virtual bool Due() = 0;
  // Shows the state of the run, and how long the stages of this process take. A worker of a
  // parallel run sets only the name in `status`.
  virtual void Show(const RunStatus& status, const StageTimes& stages) = 0;
};

// A library that shows runs. A program has at most one.
struct RunMonitorLibrary {
  const char* help;  // describes its flags, for help pages
  // Null: its flag is not given.
  absl::StatusOr<std::unique_ptr<RunMonitor>> (*start)();
  // Its flag as it was given, for a program that is started by this one; empty if it was not.
  std::string (*argument)();
};

// Returns true, so that a static variable can call it.
bool LinkRunMonitor(const RunMonitorLibrary& library);

// These three return "" or null if the program links no such library.
std::string RunMonitorHelp();
std::string RunMonitorArgument();
// kAlreadyExists: the address of the flag is in use. And other errors of HttpServer::Start().
absl::StatusOr<std::unique_ptr<RunMonitor>> StartRunMonitor();

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROGRAM_RUN_MONITOR_H_
