// Carries messages between two processes or two threads. The control plane of a parallel run is
// built on it.
//
//     Listener ──Accept──► Connection ◄────── bytes, in order ──────► Connection ◄──Connect── Transport
//
// A message is a string of bytes; its users give it a meaning (session.h, messages.proto). Bulk
// data are not sent as messages: they are in a store (store/store.h).
//
// Implementations: in_process_transport.h (threads of one process; tests), grpc/grpc_transport.h
// (one pipelined stream per connection), testing/faulty_transport.h (delays, stalls, cuts).
//
// A connection keeps the order of messages and loses none. If it cannot go on, it breaks, and stays
// broken.
//
// Ownership: listeners and connections are independent of each other and of the transport that made
//            them.
// Threads:   thread-safe: one thread may send while another receives and a third one closes.
// Blocking:  every call that may wait has a timeout; Close() wakes the calls that wait.
// Errors:    an error names the peer or the address.
#ifndef DING_WORKER_INTERACTION_TRANSPORT_TRANSPORT_H_
#define DING_WORKER_INTERACTION_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace ding {

// The largest message, in bytes, of every transport. Send() refuses a larger one. A peer that sends
// a larger message nevertheless is disconnected before memory is allocated for it.
inline constexpr int64_t kMaxMessageBytes = int64_t{16} << 20;
// The number and the bytes of messages that a connection queues in one direction for a slow peer or
// a slow user. A sender that has filled the queue waits. A message of any valid size fits into an
// empty queue.
inline constexpr int kMaxQueuedMessages = 256;
inline constexpr int64_t kMaxQueuedBytes = kMaxMessageBytes;

class Connection {
 public:
  virtual ~Connection() = default;  // as Close()

  // Queues `message` to be sent. Returns when the queue has room for it, not when it has arrived.
  //   kDeadlineExceeded  the queue had no room in time; the message is not sent
  //   kInvalidArgument   `message` is larger than kMaxMessageBytes; the connection goes on
  //   kCancelled         Close() was called
  //   kUnavailable       the peer is gone
  virtual absl::Status Send(std::string message, absl::Duration timeout) = 0;

  // Returns the next message. Messages that arrived before the peer was gone are still returned.
  //   kDeadlineExceeded  no message arrived in time
  //   kCancelled         Close() was called
  //   kUnavailable       the peer closed the connection, or is gone
  virtual absl::StatusOr<std::string> Receive(absl::Duration timeout) = 0;

  // Send and receive without waiting. They return false if there is no room, or no message.
  // TrySend() moves *message away only if it returns true.
  virtual absl::StatusOr<bool> TrySend(std::string* message) = 0;
  virtual absl::StatusOr<bool> TryReceive(std::string* message) = 0;
  // Sets a callback for users of TrySend() and TryReceive(). After one of them has returned false,
  // `ready` is called when it may return something else. It is also called at least once after the
  // connection has ended. Any thread may call it. It must not wait, throw or call the connection,
  // and must own what it uses, because it may still be called while Close() returns. Set it once,
  // before the first TrySend() or TryReceive().
  virtual void SetReadyCallback(std::function<void()> ready) = 0;

  // Sets the largest message, in bytes, that may be received from now on: 0 to kMaxMessageBytes
  // (the default). A peer that sends a larger message is disconnected, with that reason, before
  // memory is allocated.
  virtual void SetMaxReceivedBytes(int64_t bytes) = 0;

  // Ends both directions; may be called again. Messages that were sent before still arrive, if the
  // peer takes them within a second.
  virtual void Close() = 0;
  // Begins to close without waiting. Close() must follow, and waits for the rest of its second.
  virtual void BeginClose() = 0;

  // The name of the other side, for people: "127.0.0.1:41234".
  virtual const std::string& peer() const = 0;

  // The role whose token the other side has shown: "collector", "learner" or "operator". Empty if
  // no token was required.
  virtual absl::string_view identity() const { return ""; }
};

class Listener {
 public:
  virtual ~Listener() = default;  // as Close()

  // Returns a connection to the next peer that connects.
  //   kDeadlineExceeded  no peer connected in time
  //   kCancelled         Close() was called
  virtual absl::StatusOr<std::unique_ptr<Connection>> Accept(absl::Duration timeout) = 0;

  // Sets a callback that is called when a peer has connected. It is not called after Close() has
  // returned. Any thread may call it. It must not wait, throw or call the listener. Set it once,
  // before the first Accept().
  virtual void SetReadyCallback(std::function<void()> ready) = 0;

  // The address to connect to. If port 0 was asked for, it contains the port that was chosen.
  virtual const std::string& address() const = 0;

  // Stops listening; may be called again. Accepted connections go on; those that were not accepted
  // yet are closed.
  virtual void Close() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Starts to listen at `address`.
  //   kAlreadyExists       there is a listener already
  //   kInvalidArgument     `address` is not an address of this transport
  //   kFailedPrecondition  the address needs credentials that are missing or invalid
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) = 0;

  // Connects to the listener at `address`. If nobody listens there yet, it waits.
  //   kDeadlineExceeded    no listener took the connection in time; the message has the reason if
  //                        it is known
  //   kInvalidArgument, kFailedPrecondition  as for Listen()
  //   kUnauthenticated     the listener does not accept our credentials, or we do not accept its
  virtual absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                              absl::Duration timeout) = 0;
};

// Marks the timeout of a Connect() whose peer did answer, by a refusal or a reset (for a port
// without a listener, the machine itself resets). Without the mark nobody answered: the peer hangs
// or is stopped.
inline constexpr char kConnectRefusedPayload[] = "ding_worker/connect_refused";

// Returns `status` with the mark. `status` must be an error.
inline absl::Status MarkConnectRefused(absl::Status status) {
  status.SetPayload(kConnectRefusedPayload, absl::Cord());
  return status;
}

// Whether `status` has the mark.
inline bool IsConnectRefused(const absl::Status& status) {
  return status.GetPayload(kConnectRefusedPayload).has_value();
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TRANSPORT_TRANSPORT_H_
