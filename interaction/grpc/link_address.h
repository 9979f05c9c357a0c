// Addresses of a link, and the sockets that listen on them. Addresses have the forms of
// grpc_transport.h: "127.0.0.1:50051", "[::1]:50051", "trainer.lan:50051".
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_GRPC_LINK_ADDRESS_H_
#define DING_WORKER_INTERACTION_GRPC_LINK_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ding {

struct LinkAddress {
  enum class Kind { kV4, kV6, kName };

  // "127.0.0.1:50051", "[::1]:50051" or "trainer.lan:50051".
  std::string ToString() const;
  // The target that gRPC connects to. Only names are looked up.
  std::string target() const;
  // Whether only this machine can reach the address. False for every name except "localhost", which
  // is parsed as 127.0.0.1.
  bool loopback() const;

  // The address as it was asked for. TLS compares its host with the listener's certificate.
  std::string authority;
  std::string host;  // without brackets
  int port = 0;
  Kind kind = Kind::kV4;
};

// Returns kInvalidArgument if `address` has none of the forms above.
absl::StatusOr<LinkAddress> ParseLinkAddress(const std::string& address);

// The TCP sockets of a ConnectionGate: listening, the name of a socket's other end, and the ways to
// end a connection. Callers own the descriptors.

// A socket's other end.
struct Remote {
  std::string peer;     // "127.0.0.1:41234", "[::1]:41234"
  std::string address;  // its connections are counted together; for IPv6, the network of 64 bits
};

Remote RemoteOf(const sockaddr_storage& storage);

// Binds, listens, and returns the non-blocking socket. The kernel receives up to `receive_bytes` of
// each accepted connection ahead of its reader. "0.0.0.0" and "[::]" both stand for all addresses
// of the machine, of both kinds.
//   kAlreadyExists  there is a listener already
//   kUnavailable    the machine has no such address, or no descriptor
absl::StatusOr<int> ListenOn(const LinkAddress& endpoint, int receive_bytes);
// The status for `error`, a value of errno, which kept us from listening on `endpoint`.
absl::Status CannotListen(const LinkAddress& endpoint, int error);

// The local port of a socket.
int PortOf(int fd);

// The bytes that the peer has sent since it connected; 0 if the socket cannot tell.
int64_t ReceivedBytes(int fd);
// Lets the kernel receive `bytes` ahead, as far as the machine's limits allow that.
void SetReceiveBytes(int fd, int bytes);

// Ends a connection without closing its descriptor, which the caller need not own. Drops received
// bytes that were not read yet.
void CutSocket(int fd);
// Closes without waiting until the peer has taken or sent anything.
void CloseAtOnce(int fd);
// Closes `*fd` unless it is -1, and makes it -1.
void CloseIfOpen(int* fd);

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_LINK_ADDRESS_H_
