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
  // The target that gRPC connects to. Only names are looked up.
  std::string target() const;
  // Whether only this machine can reach the address. This is false for every name, whatever it stands
  // for, except "localhost", which is parsed as 127.0.0.1.
  bool loopback() const;

  // The address as it was asked for. TLS compares its host with the listener's certificate.
  std::string authority;
  std::string host;  // without brackets
  int port = 0;
  Kind kind = Kind::kV4;
};

// Returns kInvalidArgument if `address` has none of these forms.
absl::StatusOr<LinkAddress> ParseLinkAddress(const std::string& address);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_LINK_ADDRESS_H_
