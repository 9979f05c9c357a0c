// Counts the HTTP/2 streams that each connection of a gRPC server has opened. The numbers come from
// gRPC's own statistics (channelz), so they include streams that were reset at once and never became
// a call of a service.
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

// Converts gRPC's name of a peer to the form of a socket address: "ipv4:127.0.0.1:41234" becomes
// "127.0.0.1:41234", and "ipv6:%5Bfe80::1%252%5D:41234" becomes "[fe80::1]:41234".
std::string PeerOfUri(absl::string_view uri);

class BegunStreamsReader {
 public:
  // Returns a reader for the server that this process created last.
  static BegunStreamsReader OfNewestServer();

  // Returns the counts of all connections that have opened a stream. Returns nothing if no stream was
  // opened since the last Read(); that case is cheap.
  std::vector<BegunStreams> Read();

 private:
  explicit BegunStreamsReader(int64_t server) : server_(server) {}

  int64_t server_;
  int64_t calls_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_BEGUN_STREAMS_H_
