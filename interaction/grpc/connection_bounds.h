// How many connections a ConnectionGate lets through, how many calls each of them may begin, and how many
// bytes it may send ahead.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_INTERACTION_GRPC_CONNECTION_BOUNDS_H_
#define DING_WORKER_INTERACTION_GRPC_CONNECTION_BOUNDS_H_

#include <cstdint>

namespace ding {

// How many connections of each kind there may be at once.
struct ConnectionBounds {
  // The bounds for a process that may open `descriptor_limit` files. A quarter of the descriptors, at
  // least 64, stays free for everything else.
  static ConnectionBounds Within(int64_t descriptor_limit);

  int64_t silent = 0;
  int64_t unproven = 0;
  int64_t proven = 0;
};

// What the kernel receives ahead of gRPC, which reads all that is there and begins all calls in it
// before it does anything else: for a connection that is not proven, for a proven one of a peer without a
// token, and for a proven one of a peer with a token.
inline constexpr int kUnprovenBytes = 4 << 10;
inline constexpr int kUnknownBytes = 64 << 10;
inline constexpr int kKnownBytes = 1 << 20;
// What a connection may send before it is proven: a handshake with certificates, settings, one call.
inline constexpr int64_t kMostUnproven = 64 << 10;

// How many calls a connection may begin: some at once, and more as time passes.
class CallAllowance {
 public:
  static constexpr int kAtOnce = 32;
  // An honest peer that is told to come back later does so ten times in a second.
  static constexpr int kPerSecond = 20;

  // Whether `calls` more are allowed at `nanos` of a monotonic clock. They count in either case.
  bool Take(int64_t calls, int64_t nanos);

 private:
  double left_ = kAtOnce;
  int64_t last_nanos_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_CONNECTION_BOUNDS_H_
