// Messages between two processes, or two threads: what the parallel run's control plane stands on.
//
//     Listener ──Accept──► Connection ◄────── bytes, in order ──────► Connection ◄──Connect── Transport
//
// A message is a string of bytes; what it means is its users' business (session.h, messages.proto).
// Bulk data do not come along: they lie in a store (store/store.h).
//
// Implementations: in_process_transport.h (threads of one process; tests), grpc/grpc_transport.h
// (one pipelined stream per connection), testing/faulty_transport.h (delays, stalls, cuts).
//
// A connection keeps the order and loses nothing; one that cannot go on breaks, and stays broken.
//
// Ownership: listeners and connections are independent of each other and of the transport that made
//            them.
// Threads:   thread-safe: one thread may send while another receives and a third one closes.
// Blocking:  every call that waits says for how long; Close() wakes all of them.
// Errors:    name the peer, or the address.
#ifndef DING_WORKER_INTERACTION_TRANSPORT_H_
#define DING_WORKER_INTERACTION_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ding {

// The largest message of every transport. A larger one is refused by who sends it; a peer that
// sends one all the same is disconnected before memory is taken for it.
inline constexpr int64_t kMaxMessageBytes = int64_t{16} << 20;
// What a connection keeps in one direction for a peer, or a user, who is slow: so many messages, with
// so many bytes. Whoever sends more waits. A message of any size fits into an empty queue.
inline constexpr int kMaxQueuedMessages = 256;
inline constexpr int64_t kMaxQueuedBytes = kMaxMessageBytes;

class Connection {
 public:
  virtual ~Connection() = default;  // as Close()

  // Hands `message` over to be sent; returns when there is room for it, not when it has arrived.
  //   kDeadlineExceeded  the peer takes nothing; the message was not sent
  //   kInvalidArgument   larger than kMaxMessageBytes; the connection goes on
  //   kCancelled         Close() was called
  //   kUnavailable       the peer is gone
  virtual absl::Status Send(std::string message, absl::Duration timeout) = 0;

  // The next message. What had arrived before the peer went is still handed out.
  //   kDeadlineExceeded  there is none
  //   kCancelled         Close() was called
  //   kUnavailable       the peer closed the connection, or is gone
  virtual absl::StatusOr<std::string> Receive(absl::Duration timeout) = 0;

  // The same without waiting: false if there is no room, or no message. TrySend() takes *message
  // only if it returns true.
  virtual absl::StatusOr<bool> TrySend(std::string* message) = 0;
  virtual absl::StatusOr<bool> TryReceive(std::string* message) = 0;
  // `ready` is called from any thread whenever TrySend() or TryReceive() that returned false may
  // return something else, and at least once after the connection has ended. It must not wait, nor
  // call the connection, and owns what it uses: a call may still come while Close() returns. Once,
  // before the first Try.
  virtual void SetReadyCallback(std::function<void()> ready) = 0;

  // The largest message to be received from now on; kMaxMessageBytes before. A peer that sends a
  // larger one is disconnected, with that reason, before memory is taken for it.
  virtual void SetMaxReceivedBytes(int64_t bytes) = 0;

  // Ends both directions; may be repeated. What was sent before still arrives, if the peer takes it
  // within a second.
  virtual void Close() = 0;
  // The same without waiting: Close() is to follow, and waits for what is left of that second.
  virtual void BeginClose() = 0;

  // The other side, for messages to people: "127.0.0.1:41234".
  virtual const std::string& peer() const = 0;

  // As whom the other side was let in: "collector", "learner" or "operator", of which it has shown
  // the token. Empty: nobody asked for one.
  virtual absl::string_view identity() const { return ""; }
};

class Listener {
 public:
  virtual ~Listener() = default;  // as Close()

  // The next peer that connects.
  //   kDeadlineExceeded  there is none
  //   kCancelled         Close() was called
  virtual absl::StatusOr<std::unique_ptr<Connection>> Accept(absl::Duration timeout) = 0;

  // Where to connect to; with the port that was chosen, if 0 was asked for.
  virtual const std::string& address() const = 0;

  // Takes no further peers; may be repeated. Connections that were accepted go on, others are
  // closed.
  virtual void Close() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  //   kAlreadyExists       somebody listens there
  //   kInvalidArgument     not an address of this transport
  //   kFailedPrecondition  one that needs credentials which are missing, or are not good
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) = 0;

  // Waits for somebody to listen there, too.
  //   kDeadlineExceeded    nobody took the connection in time; says why, where that is known
  //   kInvalidArgument, kFailedPrecondition  as of Listen()
  //   kUnauthenticated     whoever listens does not let us in, or is not who we want
  virtual absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                              absl::Duration timeout) = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TRANSPORT_H_
