// The transport between processes: one gRPC stream per connection (link.proto).
//
//   Send ──► queue ──► Frames {all that wait} ──► one write ═══ TCP ═══► Frames ──► queue ──► Receive
//
// While a write is under way, messages gather for the next one, so that many small messages cost
// few system calls. A receiver whose queue is full stops reading; gRPC's flow control then fills
// the sender's queue, and Send() waits. A queue is full with kMaxQueuedMessages messages or with
// kMaxMessageBytes bytes.
//
// Addresses: "127.0.0.1:50051", "[::1]:50051", "localhost:50051" (which is 127.0.0.1); a listener
//            chooses a port for 0. To listen, or to connect, beyond loopback needs TLS and a token:
//            "10.0.0.7:50051", "0.0.0.0:50051" or "[::]:50051" (all addresses of the machine, of
//            both kinds) and, of a listener elsewhere, "trainer.lan:50051".
// Security:  with TLS, who connects checks that the certificate is signed by tls_ca and is that of
//            the host that was asked for; who listens, that of who connects is signed by tls_ca.
//            With a token_file, nobody is let in without a token of it, and identity() says whose.
//            Both hold on loopback as well, if they are set. The files are read by each Listen() and
//            Connect().
// Threads:   those of gRPC, a few for all connections of the process; one of each listener.
// Blocking:  Close() of a connection waits up to a second for the peer to take what was sent.
// Bounds:    how many connections there may be, what they may do before they have shown a token, and
//            how many calls they may make: connection_gate.h.
// Errors:    a peer that disappears without a word (a machine that hangs) is noticed after
//            kKeepAlive of silence twice. A peer that does not speak link.proto is disconnected.
//            Who connects while 128 peers wait to be accepted is refused, and tries again; so does
//            who is disconnected at once, which is all that TLS tells whom it does not like: what
//            that may mean is said at the end of the time. A certificate that is not good, and a
//            token that is refused, end Connect() at once.
//
// Example:
//   GrpcTransport transport;
//   DING_ASSIGN_OR_RETURN(const auto listener, transport.Listen("127.0.0.1:0"));
//   DING_ASSIGN_OR_RETURN(const auto client,
//                         transport.Connect(listener->address(), absl::Seconds(5)));
//   DING_ASSIGN_OR_RETURN(const auto server, listener->Accept(absl::Seconds(5)));
//   DING_RETURN_IF_ERROR(client->Send("hello", absl::Seconds(5)));
#ifndef DING_WORKER_INTERACTION_GRPC_GRPC_TRANSPORT_H_
#define DING_WORKER_INTERACTION_GRPC_GRPC_TRANSPORT_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/interaction/grpc/link_credentials.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

class GrpcTransport : public Transport {
 public:
  explicit GrpcTransport(GrpcTransportOptions options = {}) : options_(std::move(options)) {}

  // The most threads that gRPC starts in a process, on a machine of two cores or more. It aborts the
  // program when it gets none: a program asks CheckThreads() before it makes a transport.
  static constexpr int kThreads = 24;

  // The period of the signs of life of an idle connection, and how long each waits for its answer.
  static constexpr absl::Duration kKeepAlive = absl::Seconds(20);

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) override;
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                      absl::Duration timeout) override;

 private:
  const GrpcTransportOptions options_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_GRPC_TRANSPORT_H_
