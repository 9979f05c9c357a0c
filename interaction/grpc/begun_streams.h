// How many HTTP/2 streams each connection of a gRPC server has begun, as gRPC's own statistics
// (channelz) have it: also those that were reset at once, and so never became a call of a service.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_INTERACTION_GRPC_BEGUN_STREAMS_H_
#define DING_WORKER_INTERACTION_GRPC_BEGUN_STREAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/interaction/grpc/connection_gate.h"

namespace ding {

// "127.0.0.1:41234" of gRPC's "ipv4:127.0.0.1:41234", "[fe80::1]:41234" of
// "ipv6:%5Bfe80::1%252%5D:41234".
std::string PeerOfUri(absl::string_view uri);

class BegunStreamsReader {
 public:
  // A reader for the server that this process has made last.
  static BegunStreamsReader OfNewestServer();

  // Returns all connections, or none if no stream has been begun since the last call, which is cheap.
  std::vector<BegunStreams> Read();

 private:
  explicit BegunStreamsReader(int64_t server) : server_(server) {}

  int64_t server_;
  int64_t calls_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_BEGUN_STREAMS_H_
