#include "ding_worker/worker/program/run_monitor.h"

#include "ding_worker/base/check.h"

namespace ding {
namespace {

RunMonitorLibrary& Linked() {
  static RunMonitorLibrary library = {nullptr, nullptr, nullptr};
  return library;
}

}  // namespace

bool LinkRunMonitor(const RunMonitorLibrary& library) {
  DING_CHECK(Linked().start == nullptr) << "two libraries that show runs are linked";
  Linked() = library;
  return true;
}

std::string RunMonitorHelp() { return Linked().help == nullptr ? "" : Linked().help; }

std::string RunMonitorArgument() { return Linked().argument == nullptr ? "" : Linked().argument(); }

absl::StatusOr<std::unique_ptr<RunMonitor>> StartRunMonitor() {
  if (Linked().start == nullptr) return nullptr;
  return Linked().start();
}

}  // namespace ding
