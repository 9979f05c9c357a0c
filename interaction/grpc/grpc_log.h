// Passes on the log lines of gRPC and of the listener in front of it, at a limited rate. By default
// gRPC writes a line to stderr for each handshake that fails, so a peer could fill the log by
// starting many handshakes.
//
//   gRPC ──► error, error, error ... ──► at most one in each second, with the number of dropped
//   lines listener ──► refused, cut ... ─────► the same
//
// Threads: thread-safe.
//
// Example:
//   ReportGrpcErrors([](const std::string& line) { DING_LOG(WARNING) << line; });
#ifndef DING_WORKER_INTERACTION_GRPC_GRPC_LOG_H_
#define DING_WORKER_INTERACTION_GRPC_GRPC_LOG_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"

namespace ding {

// From now on passes all log lines of gRPC in this process to `say`; any thread may call `say`.
// The rate of errors is limited as described above; the rate of lines that GRPC_VERBOSITY asks for
// is not. From version 1.65 on, gRPC logs by Abseil: `say` then gets all lines that this process
// logs by absl/log, and none of them goes to stderr any more. This calls absl::InitializeLog().
// main() calls this once, before it makes any connection.
void ReportGrpcErrors(std::function<void(const std::string& line)> say,
                      const Clock* clock = Clock::Real());

// Reports a connection that was refused or cut to the `say` of ReportGrpcErrors(), at most once in
// each second. Does nothing if ReportGrpcErrors() was never called.
void ReportRefusal(absl::string_view what);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_GRPC_LOG_H_
