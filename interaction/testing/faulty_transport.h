// A transport for tests that delays the messages of another transport, breaks its connections, or
// lets them fall silent. Like every transport it keeps the order of messages, and loses no message
// of a connection that is alive and not in a black hole.
//
//     user ◄──► [relay: the seed determines the delay of each message] ◄──► connection of `base`
//
// It affects both directions of all connections that are made through it. To affect only one
// worker, give that worker a FaultyTransport of its own. The delay of a message is drawn from the
// seed, the number of the connection and the position of the message; the exact time of its arrival
// depends on the scheduler.
//
// Ownership: `base` outlives it. Connections keep alive what they need of it.
// Threads:   thread-safe. Every connection has two threads, which end with it.
#ifndef DING_WORKER_INTERACTION_TESTING_FAULTY_TRANSPORT_H_
#define DING_WORKER_INTERACTION_TESTING_FAULTY_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

struct Faults {
  uint64_t seed = 0;
  // The probability with which each message is held back for up to max_delay. The messages behind
  // it wait as well.
  double delay = 0;
  absl::Duration max_delay = absl::Milliseconds(20);
};

class FaultyTransport : public Transport {
 public:
  FaultyTransport(Transport* base, const Faults& faults);
  ~FaultyTransport() override;

  // Sets whether all connections, also later ones, are in a black hole: nothing arrives in either
  // direction, nobody can connect, and no error is seen, not even that a peer has closed. Messages
  // that are sent meanwhile are lost.
  void set_black_hole(bool black_hole);
  // Breaks all existing connections, as if the peer had gone. Messages under way are lost.
  void Cut();

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) override;
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                      absl::Duration timeout) override;

 private:
  class Control;
  class FaultyConnection;
  class FaultyListener;

  Transport* const base_;
  const std::shared_ptr<Control> control_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TESTING_FAULTY_TRANSPORT_H_
