// A transport for tests that delays the messages of another one, breaks its connections, or lets them
// fall silent. As every transport it keeps the order, and loses nothing of a connection that lives.
//
//     user ◄──► [relay: when each message goes on, by the seed] ◄──► connection of `base`
//
// Both directions of whatever is made through it suffer; to make one worker suffer, give it one of
// its own. How long a message is held back is drawn from the seed, the connection's number and the
// message's place; when it arrives is the scheduler's affair.
//
// Ownership: `base` outlives it. Connections keep what they need of it.
// Threads:   thread-safe. Every connection has two threads, which end with it.
#ifndef DING_WORKER_INTERACTION_TESTING_FAULTY_TRANSPORT_H_
#define DING_WORKER_INTERACTION_TESTING_FAULTY_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

struct Faults {
  uint64_t seed = 0;
  // The probability, of every message by itself, to be held back for up to max_delay, with those
  // behind it.
  double delay = 0;
  absl::Duration max_delay = absl::Milliseconds(20);
};

class FaultyTransport : public Transport {
 public:
  FaultyTransport(Transport* base, const Faults& faults);
  ~FaultyTransport() override;

  // Whether nothing arrives in either direction, nor anybody connects, and no error shows, not even
  // that a peer has closed. What is sent meanwhile is lost. Holds for all connections, also later
  // ones.
  void set_black_hole(bool black_hole);
  // Breaks all connections that there are, as if the peer had gone; what is under way is lost.
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
