// Shows a run to others while it works, such as to Prometheus. The library that does this
// (worker/prometheus) and its flag are only in the programs that link it; the programs that train
// call these functions.
//
// Threads: LinkRunMonitor() is called before main(), the other functions from main(). A RunMonitor
//          is called by the thread of the run.
#ifndef DING_WORKER_WORKER_PROGRAM_RUN_MONITOR_H_
#define DING_WORKER_WORKER_PROGRAM_RUN_MONITOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/time_histogram.h"

namespace ding {

class RunMonitor {
 public:
  virtual ~RunMonitor() = default;
  // Whether to call Show() again. Cheap.
  virtual bool Due() = 0;
  // Shows the run from now on as it is in `status`, of which a worker of a parallel run knows only
  // the name, and the stages that this process measures.
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
