// Calls of a coordinator that return when they have had their effects. Programs do not wait: they
// pass callbacks.
//
// Threads: thread-safe; not for the coordinator's own thread.
#ifndef DING_WORKER_COORDINATOR_TESTING_COORDINATOR_CALLS_H_
#define DING_WORKER_COORDINATOR_TESTING_COORDINATOR_CALLS_H_

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// A copy that shares nothing: ThreadSanitizer cannot see how Debian's Abseil counts the owners of a
// status.
inline absl::Status Unshared(const absl::Status& status) {
  return absl::Status(status.code(), std::string(status.message()));
}

// Has the coordinator handle a message, and waits until it is done.
inline absl::Status HandleNow(Coordinator* coordinator, uint32_t worker,
                              const WorkerMessage& message) {
  const auto done = std::make_shared<std::promise<absl::Status>>();
  coordinator->Handle(worker, message,
                      [done](const absl::Status& s) { done->set_value(Unshared(s)); });
  return done->get_future().get();
}

inline absl::StatusOr<uint32_t> AdmitNow(Coordinator* coordinator, const Hello& hello) {
  const auto done = std::make_shared<std::promise<absl::StatusOr<uint32_t>>>();
  coordinator->Admit(hello, [done](absl::StatusOr<uint32_t> worker) {
    if (!worker.ok()) worker = Unshared(worker.status());
    done->set_value(std::move(worker));
  });
  return done->get_future().get();
}

// Returns when all earlier events of the coordinator have had their effects.
inline void Settle(const Coordinator& coordinator) { coordinator.counters(); }

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TESTING_COORDINATOR_CALLS_H_
