// The transport between processes: one gRPC stream per connection (link.proto).
//
//   Send ──► queue ──► Frames {all that wait} ──► one write ═══ TCP ═══► Frames ──► queue ──► Receive
//
// While a write is under way, messages gather for the next one, so that many small messages cost
// few system calls. A receiver whose queue is full stops reading; gRPC's flow control then fills
// the sender's queue, and Send() waits. A queue is full with kMaxQueuedMessages messages or with
// kMaxMessageBytes bytes.
//
// Addresses: "127.0.0.1:50051", "[::1]:50051" and "localhost:50051" (which means 127.0.0.1); a
//            listener with port 0 gets a free port. Listening or connecting beyond loopback needs
//            TLS and a token: "10.0.0.7:50051", "0.0.0.0:50051" or "[::]:50051" (all addresses of
//            the machine, IPv4 and IPv6). A caller may also use a name: "trainer.lan:50051".
// Security:  with TLS, the caller checks that the listener's certificate is signed by tls_ca and
//            names the host that the caller asked for; the listener checks that the caller's
//            certificate is signed by tls_ca. With a token_file, the listener lets in only peers
//            that show a token of that file, and identity() returns the role of the token. Both
//            also apply on loopback if they are set. Each Listen() and Connect() reads the files
//            again.
// Threads:   a few threads of gRPC for all connections of the process, and one for each listener.
// Blocking:  Close() of a connection waits up to a second for the peer to receive sent messages.
// Bounds:    connection_gate.h limits the number of connections, their actions before they have
//            shown a token, and the number of their calls.
// Errors:    a peer that disappears without closing (a machine that hangs) is noticed after two
//            periods of kKeepAlive. A peer that does not speak link.proto is disconnected.
//            Connect() retries until its deadline when 128 peers already wait to be accepted, or
//            when the listener closes the connection at once. TLS gives no reason to a rejected
//            peer, so the final error lists the possible causes. An invalid certificate or a
//            refused token ends Connect() at once. If a silent listener has not answered by the
//            deadline, the attempt goes on, and the next Connect() to the address takes it over.
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
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/grpc/link_credentials.h"
#include "ding_worker/interaction/transport/transport.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace ding {

class GrpcTransport : public Transport {
 public:
  explicit GrpcTransport(GrpcTransportOptions options = {}) : options_(std::move(options)) {}

  // The most threads that gRPC starts in a process, on a machine of two cores or more. gRPC aborts
  // the program when it cannot start one, so a program calls CheckThreads() before it makes a
  // transport.
  static constexpr int kThreads = 24;

  // The period of the keepalive pings of an idle connection, and how long each ping waits for its
  // answer.
  static constexpr absl::Duration kKeepAlive = absl::Seconds(20);

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address) override;
  absl::StatusOr<std::unique_ptr<Connection>> Connect(const std::string& address,
                                                      absl::Duration timeout) override;

 private:
  // A channel whose TCP connection may not be established yet. If it is destroyed before the
  // listener answers, gRPC 1.51 leaks the connection.
  struct Unfinished {
    std::string target_and_credentials;
    std::shared_ptr<grpc::Channel> channel;
  };
  // Returns the unfinished channel for the same target and credentials, or nullptr. Drops channels
  // that have ended.
  std::shared_ptr<grpc::Channel> TakeUnfinished(const std::string& target_and_credentials);

  const GrpcTransportOptions options_;
  Mutex mutex_;
  std::vector<Unfinished> unfinished_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_GRPC_TRANSPORT_H_
