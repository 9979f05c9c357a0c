// The connections that a gRPC server has taken over from its ConnectionGate. Counts their calls,
// and cuts connections that exceed a bound.
//
//   Add ──► unproven ──LetIn──► proven ──► ended: forgotten by Sweep
//              │                   │
//              └──────── cut ◄─────┘
//
// A connection that begins more calls than its allowance, or sends too much before it is proven, is
// cut as a flood: for some time after that, the connections of its address are passed on one after
// another, with pauses (IsItsTurn). A cut connection is counted until the server has closed it.
//
// When there are too many connections of one kind, the address with the most of them loses one
// connection. So an address with many connections cannot push out the others.
//
// Reports: functions that cut a connection return a line for the log, or set `*report` to it.
//
// Ownership: the server owns the sockets, and may close them at any time. A closed descriptor's
//            number may then belong to another file; the inode shows it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_INTERACTION_GRPC_TAKEN_CONNECTIONS_H_
#define DING_WORKER_INTERACTION_GRPC_TAKEN_CONNECTIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/interaction/grpc/link_address.h"

namespace ding {

// How many connections of each kind there may be at once.
struct ConnectionBounds {
  // The bounds for a process that may open `descriptor_limit` files. A quarter of the descriptors,
  // at least 64, stays free for everything else.
  static ConnectionBounds Within(int64_t descriptor_limit);

  int64_t silent = 0;
  int64_t unproven = 0;
  int64_t proven = 0;
};

// How many bytes the kernel receives ahead of gRPC, which first reads all of them and begins all
// calls in them: for an unproven connection, for a proven one without a token, and for a proven one
// with a token.
inline constexpr int kUnprovenBytes = 4 << 10;
inline constexpr int kUnknownBytes = 64 << 10;
inline constexpr int kKnownBytes = 1 << 20;
// The bytes that a connection may send before it is proven: a handshake with certificates,
// settings, one call.
inline constexpr int64_t kMostUnproven = 64 << 10;

// How many calls a connection may begin: some at once, and more as time passes.
class CallAllowance {
 public:
  static constexpr int kAtOnce = 32;
  // An honest peer that is told to come back later does so ten times in a second.
  static constexpr int kPerSecond = 20;

  // Whether `calls` more calls are allowed at `nanos` of a monotonic clock. They count in either
  // case.
  bool Take(int64_t calls, int64_t nanos);

 private:
  double left_ = kAtOnce;
  int64_t last_nanos_ = 0;
};

// A connection that may be closed to make room.
struct VictimCandidate {
  absl::string_view address;
  bool silent = false;  // has sent nothing yet
};

// Returns the index of the connection to close: the oldest silent one of the address with most
// connections, or any of them if all have spoken. `candidates` must not be empty; the silent ones
// of an address are ordered from the oldest to the newest.
size_t ChooseVictim(const std::vector<VictimCandidate>& candidates, Rng* rng);

class TakenConnections {
 public:
  // A connection that is not proven `prove_within` after it was accepted is cut. `clock` must
  // outlive this.
  TakenConnections(const ConnectionBounds& bounds, absl::Duration prove_within, const Clock* clock)
      : bounds_(bounds), prove_within_(prove_within), clock_(clock) {}

  // Adds an unproven connection, which was accepted at the start of `since`. Returns false, and
  // changes nothing, if another connection of the same peer is still open.
  bool Add(int fd, const Remote& remote, const Timer& since);
  // Whether a connection of `address` may be passed on now. True uses up the turn of an address
  // that has flooded us.
  bool IsItsTurn(const std::string& address);

  bool empty() const { return connections_.empty(); }
  // Connections that are not proven, cut ones included.
  int64_t unproven() const;

  // Counts a call of `peer` that has arrived. Returns false if the connection is cut, now or
  // before.
  bool CountCall(const std::string& peer, std::string* report);
  // `peer` has begun `begun` streams since it connected. Calls that are reset at once are seen only
  // here.
  std::string CountStreams(const std::string& peer, int64_t begun);
  // Admits a call of `peer`: its connection is proven from now on. `known`: whether the peer has
  // shown a token.
  //   kFailedPrecondition  an earlier call was admitted; the connection is cut
  //   kResourceExhausted   the bound on proven connections is reached
  //   kUnavailable         the connection was cut
  absl::Status LetIn(const std::string& peer, bool known, std::string* report);

  // Forgets ended connections, and cuts connections that are late or send too much. If the bound on
  // unproven connections is reached, cuts some to make room for the `waiting` ones.
  std::vector<std::string> Sweep(int64_t waiting, Rng* rng);
  // Cuts all connections that are not proven.
  void CutUnproven(absl::string_view why);

  // Whether a connection was cut as a flood since the last call.
  bool TakeFlooded() { return std::exchange(flooded_, false); }

 private:
  struct Taken {
    Taken(int fd, const std::string& address, const Timer& since);
    bool ended() const;

    int fd;
    ino_t inode;
    std::string address;
    Timer since;
    bool proven = false;
    bool cut = false;
    CallAllowance calls;    // calls that have arrived
    CallAllowance streams;  // all streams that were begun
    int64_t begun = 0;
  };

  // An address of which a connection was cut as a flood.
  struct Flooder {
    Timer since_flood;
    Timer since_turn;  // since one of its connections was handed over
  };

  int64_t Nanos() const { return clock_->MonotonicNanos(); }
  absl::Status Prove(Taken* taken, bool known);
  std::string CutOneUnproven(Rng* rng);
  std::string Cut(const std::string& peer, Taken* taken, absl::string_view why);
  std::string CutFlood(const std::string& peer, Taken* taken, absl::string_view why);

  const ConnectionBounds bounds_;
  const absl::Duration prove_within_;
  const Clock* const clock_;
  std::unordered_map<std::string, Taken> connections_;  // by peer
  std::unordered_map<std::string, Flooder> flooders_;   // by address
  bool flooded_ = false;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_GRPC_TAKEN_CONNECTIONS_H_
