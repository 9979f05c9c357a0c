// Connects threads of one process, for runs without a network and for tests.
//
//     Send ──► queue of kMaxQueuedMessages, kMaxQueuedBytes ──► Receive    (and the same in the other direction)
//
// An address is any name that is not empty. Each transport object has addresses of its own, so
// threads that connect to each other share one object. Messages are moved, not copied.
//
// Threads: thread-safe.
//
// Example:
//   InProcessTransport transport;
//   DING_ASSIGN_OR_RETURN(const auto listener, transport.Listen("coordinator"));
//   DING_ASSIGN_OR_RETURN(const auto worker, transport.Connect("coordinator", absl::Seconds(1)));
//   DING_ASSIGN_OR_RETURN(const auto coordinator, listener->Accept(absl::Seconds(1)));
#ifndef DING_WORKER_INTERACTION_TRANSPORT_IN_PROCESS_TRANSPORT_H_
#define DING_WORKER_INTERACTION_TRANSPORT_IN_PROCESS_TRANSPORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

class InProcessTransport : public Transport {
 public:
  InProcessTransport();
  ~InProcessTransport() override;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) override;
  // Returns as soon as the connection waits to be accepted.
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                      absl::Duration timeout) override;

 private:
  class Addresses;

  const std::shared_ptr<Addresses> addresses_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TRANSPORT_IN_PROCESS_TRANSPORT_H_
