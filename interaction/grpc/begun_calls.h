// Counts the calls that peers begin at a gRPC server (BegunStreamsReader), and answers calls that a
// listener refuses (Refusal, UnknownMethods).
#ifndef DING_WORKER_INTERACTION_GRPC_BEGUN_CALLS_H_
#define DING_WORKER_INTERACTION_GRPC_BEGUN_CALLS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/interaction/grpc/connection_gate.h"
#include "ding_worker/interaction/grpc/link.pb.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace ding {

// Converts gRPC's name of a peer to the form of a socket address: "ipv4:127.0.0.1:41234" becomes
// "127.0.0.1:41234", and "ipv6:%5Bfe80::1%252%5D:41234" becomes "[fe80::1]:41234".
std::string PeerOfUri(absl::string_view uri);

// Counts the HTTP/2 streams that each connection of a gRPC server has opened. The numbers come from
// gRPC's own statistics (channelz), so they include streams that were reset at once and never
// became a call of a service.
//
// Threads: thread-compatible.
class BegunStreamsReader {
 public:
  // Returns a reader for the server that this process created last.
  static BegunStreamsReader OfNewestServer();

  // Returns the counts of all connections that have opened a stream. Returns nothing if no stream
  // was opened since the last Read(); that case is cheap.
  std::vector<BegunStreams> Read();

 private:
  explicit BegunStreamsReader(int64_t server) : server_(server) {}

  int64_t server_;
  int64_t calls_ = 0;
};

// Answers a peer that is refused. Each answer deletes itself when gRPC is done with it.
//
// Threads: thread-safe, as UnknownMethods.
class Refusal final : public grpc::ServerBidiReactor<link::Frames, link::Frames> {
 public:
  Refusal(grpc::StatusCode code, const std::string& why) { Finish(grpc::Status(code, why)); }
  void OnDone() override { delete this; }
};

// Answers calls of methods that Link does not have. Without UnknownMethods, gRPC would keep these
// calls open.
class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  explicit UnknownMethods(std::function<void(const std::string& peer)> count)
      : count_(std::move(count)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    count_(PeerOfUri(context->peer()));
    return new Answer;
  }

 private:
  class Answer final : public grpc::ServerGenericBidiReactor {
   public:
    Answer() { Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such method")); }
    void OnDone() override { delete this; }
  };

  const std::function<void(const std::string& peer)> count_;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_BEGUN_CALLS_H_
