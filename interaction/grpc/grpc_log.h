// What gRPC, and the listener before it, have to say. Left alone gRPC writes a line to stderr for
// each handshake that fails, and so for as many as somebody cares to begin.
//
//   gRPC ──► error, error, error ... ──► at most one in each second, with the number of those left out
//   listener ──► refused, cut ... ─────► the same
//
// Threads: thread-safe.
//
// Example:
//   ReportGrpcErrors([](const std::string& line) { LOG(WARNING) << line; });
#ifndef DING_WORKER_INTERACTION_GRPC_GRPC_LOG_H_
#define DING_WORKER_INTERACTION_GRPC_GRPC_LOG_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"

namespace ding {

// From now on gRPC's own lines of this process go to `say`, which any thread may call: errors as
// above. What somebody asks for by GRPC_VERBOSITY comes whole. For main(), before anything is
// connected; once.
void ReportGrpcErrors(std::function<void(const std::string& line)> say,
                      const Clock* clock = Clock::Real());

// Tells `say` of ReportGrpcErrors() of a connection that was refused or cut: at most one in each
// second. Nobody is told if that was never called.
void ReportRefusal(absl::string_view what);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_GRPC_LOG_H_
