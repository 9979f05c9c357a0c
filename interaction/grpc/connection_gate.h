// Accepts the connections of a gRPC server, and bounds their number and the calls of each.
//
//   TCP ──► silent ──first bytes──► unproven ──an admitted call──► proven
//            │ kSpeakWithin           │ kProveWithin
//            ▼                        ▼
//          closed                    cut
//
// The bounds keep a part of the process's descriptors free for files. When there are too many
// connections of one kind, the address with the most of them loses one connection: the oldest
// silent one, or any unproven one. An honest peer speaks at once and is proven within milliseconds,
// so it seldom loses its connection, even if all peers have the same address. A proven connection
// is never closed to make room.
//
// A connection that begins more calls than its allowance, or sends too much before it is proven, is
// cut. For some time the connections of its address are then passed on one after another, with
// pauses. gRPC itself accepts any number of calls, and needs some 20 kB for each; calls that are
// reset at once or name an unknown method count, too. The gate accepts connections itself because
// the listener of gRPC 1.51 never accepts again once accept() has failed for lack of a descriptor.
//
// The gate owns the connections until they have spoken. Its parts:
// link_address.h         the addresses, and the system calls for sockets
// taken_connections.h    the bounds, and the connections that gRPC has taken over
//
// Threads: CountCall(), LetIn() and StopListening() are thread-safe; one thread owns the rest. The
//          gate has a thread of its own.
// Errors:  a connection that cannot be accepted for lack of descriptors or memory is closed, and
//          the gate goes on accepting.
#ifndef DING_WORKER_INTERACTION_GRPC_CONNECTION_GATE_H_
#define DING_WORKER_INTERACTION_GRPC_CONNECTION_GATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/grpc/link_address.h"
#include "ding_worker/interaction/grpc/taken_connections.h"

namespace ding {

// How many streams a connection has begun since it was made.
struct BegunStreams {
  std::string peer;
  int64_t count = 0;
};

class ConnectionGate {
 public:
  static constexpr absl::Duration kSpeakWithin = absl::Seconds(2);
  static constexpr absl::Duration kProveWithin = absl::Seconds(10);

  // The server behind the gate. The gate's thread calls these functions; threads that call
  // CountCall() and LetIn() call `report`, too.
  struct Backend {
    // Takes over a connected, non-blocking socket, and closes it when the connection has ended.
    std::function<void(int fd)> take;
    // Returns all connections, or none if no stream has been begun since the last call.
    std::function<std::vector<BegunStreams>()> begun_streams;
    // Called for each connection that is refused or cut.
    std::function<void(absl::string_view what)> report;
  };

  // Binds and listens; peers wait until Start(). "0.0.0.0" and "[::]" both stand for all addresses
  // of the machine, of both kinds.
  //   kAlreadyExists  there is a listener already
  //   kUnavailable    the machine has no such address, or no descriptor
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Listen(const LinkAddress& endpoint,
                                                                const ConnectionBounds& bounds);
  // Stops listening, and no longer watches connections.
  ~ConnectionGate();

  // Begins to accept. At most once.
  //   kResourceExhausted  the system refuses a thread
  absl::Status Start(Backend backend);
  // Returns when another process can listen at the address. Cuts unproven connections. Proven ones
  // go on, and the gate goes on watching them. May be repeated.
  void StopListening();

  // The port that the gate listens on; for port 0, the port that the machine has chosen.
  int port() const;

  // Counts a call of `peer` ("127.0.0.1:41234") that has arrived, whether or not it is admitted
  // later. Returns false if it exceeds the allowance; the connection is then cut.
  bool CountCall(const std::string& peer);
  // Admits a call of `peer`: its connection is proven from now on. `known`: whether the peer has
  // shown a token.
  //   kFailedPrecondition  an earlier call was admitted; the connection is cut
  //   kResourceExhausted   the bound on proven connections is reached
  //   kUnavailable         the connection was cut
  absl::Status LetIn(const std::string& peer, bool known);

 private:
  class Impl;
  explicit ConnectionGate(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_CONNECTION_GATE_H_
