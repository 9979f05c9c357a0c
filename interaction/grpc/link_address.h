// Addresses of grpc_transport.h: "127.0.0.1:50051", "[::1]:50051", "trainer.lan:50051".
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_GRPC_LINK_ADDRESS_H_
#define DING_WORKER_INTERACTION_GRPC_LINK_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace ding {

struct LinkAddress {
  enum class Kind { kV4, kV6, kName };

  // "127.0.0.1:50051", "[::1]:50051" or "trainer.lan:50051".
  std::string ToString() const;
  // What gRPC connects to. Only names are looked up.
  std::string target() const;
  // Reachable from this machine alone. A name is not, whatever it stands for; "localhost" is
  // 127.0.0.1.
  bool loopback() const;

  // The name of whoever listens there, as it was asked for: TLS compares it with the certificate.
  std::string authority;
  std::string host;  // without brackets
  int port = 0;
  Kind kind = Kind::kV4;
};

// kInvalidArgument if `address` is none.
absl::StatusOr<LinkAddress> ParseLinkAddress(const std::string& address);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_LINK_ADDRESS_H_
