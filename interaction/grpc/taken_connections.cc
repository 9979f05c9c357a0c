#include "ding_worker/interaction/grpc/taken_connections.h"

#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

// Between two connections of an address that has flooded us, for some time after that.
constexpr absl::Duration kTurn = absl::Milliseconds(50);
constexpr absl::Duration kFloodMemory = absl::Seconds(2);

constexpr int64_t kLeastReserve = 64;
constexpr int64_t kMaxNewcomers = 256;
constexpr int64_t kMaxProven = 4096;

constexpr absl::string_view kTooManyCalls = "it makes too many calls";

ino_t InodeOf(int fd) {
  struct stat status = {};
  fstat(fd, &status);
  return status.st_ino;
}

// The address that most of `candidates` have.
std::string MostFrequentAddress(const std::vector<VictimCandidate>& candidates) {
  std::unordered_map<std::string, int64_t> counts;
  for (const VictimCandidate& each : candidates) ++counts[std::string(each.address)];
  const auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  return most->first;
}

}  // namespace

ConnectionBounds ConnectionBounds::Within(int64_t descriptor_limit) {
  const int64_t reserve =
      std::min(std::max(kLeastReserve, descriptor_limit / 4), descriptor_limit / 2);
  const int64_t left = descriptor_limit - reserve;
  const int64_t newcomers = std::clamp<int64_t>(left / 2, 2, kMaxNewcomers);
  ConnectionBounds bounds;
  bounds.silent = newcomers / 2;
  bounds.unproven = newcomers / 2;
  bounds.proven = std::clamp<int64_t>(left - newcomers, 1, kMaxProven);
  return bounds;
}

bool CallAllowance::Take(int64_t calls, int64_t nanos) {
  const double grown = 1e-9 * static_cast<double>(nanos - last_nanos_) * kPerSecond;
  left_ = std::min<double>(kAtOnce, left_ + grown) - static_cast<double>(calls);
  last_nanos_ = nanos;
  return left_ >= 0;
}

size_t ChooseVictim(const std::vector<VictimCandidate>& candidates, Rng* rng) {
  const std::string address = MostFrequentAddress(candidates);
  std::vector<size_t> spoke;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].address != address) continue;
    if (candidates[i].silent) return i;
    spoke.push_back(i);
  }
  return spoke[static_cast<size_t>(rng->UniformInt(spoke.size()))];
}

TakenConnections::Taken::Taken(int fd, const std::string& address, const Timer& since)
    : fd(fd), inode(InodeOf(fd)), address(address), since(since) {}

bool TakenConnections::Taken::ended() const {
  struct stat now;
  return fstat(fd, &now) != 0 || now.st_ino != inode || !S_ISSOCK(now.st_mode);
}

bool TakenConnections::Add(int fd, const Remote& remote, const Timer& since) {
  const auto found = connections_.find(remote.peer);
  // The same port of a peer can be connected twice only to two addresses of this machine.
  if (found != connections_.end() && !found->second.ended()) return false;
  connections_.insert_or_assign(remote.peer, Taken(fd, remote.address, since));
  return true;
}

bool TakenConnections::IsItsTurn(const std::string& address) {
  const auto found = flooders_.find(address);
  if (found == flooders_.end()) return true;
  if (found->second.since_turn.Elapsed() < kTurn) return false;
  found->second.since_turn = Timer(clock_);
  return true;
}

int64_t TakenConnections::unproven() const {
  return std::count_if(connections_.begin(), connections_.end(),
                       [](const auto& each) { return !each.second.proven; });
}

bool TakenConnections::CountCall(const std::string& peer, std::string* report) {
  const auto found = connections_.find(peer);
  // A connection whose end is known already; what it had sent is still being read.
  if (found == connections_.end() || found->second.cut) return false;
  if (found->second.calls.Take(1, Nanos())) return true;
  *report = CutFlood(peer, &found->second, kTooManyCalls);
  return false;
}

std::string TakenConnections::CountStreams(const std::string& peer, int64_t begun) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return "";
  Taken& taken = found->second;
  const int64_t more = begun - std::exchange(taken.begun, begun);
  if (taken.cut || taken.streams.Take(more, Nanos())) return "";
  return CutFlood(peer, &taken, kTooManyCalls);
}

absl::Status TakenConnections::LetIn(const std::string& peer, bool known, std::string* report) {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || found->second.cut) {
    return absl::UnavailableError("the connection was cut");
  }
  if (!found->second.proven) return Prove(&found->second, known);
  *report = CutFlood(peer, &found->second, kTooManyCalls);
  return absl::FailedPreconditionError("a connection has one call");
}

absl::Status TakenConnections::Prove(Taken* taken, bool known) {
  const int64_t proven = static_cast<int64_t>(connections_.size()) - unproven();
  if (proven >= bounds_.proven) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "it has ", proven, " connections, as many as its limit of open files allows (ulimit -n)"));
  }
  taken->proven = true;
  if (!taken->ended()) SetReceiveBytes(taken->fd, known ? kKnownBytes : kUnknownBytes);
  return absl::OkStatus();
}

std::vector<std::string> TakenConnections::Sweep(int64_t waiting, Rng* rng) {
  std::vector<std::string> reports;
  int64_t going = 0;
  for (auto each = connections_.begin(); each != connections_.end();) {
    Taken& taken = each->second;
    if (taken.ended()) {
      each = connections_.erase(each);
      continue;
    }
    if (!taken.proven && !taken.cut && taken.since.Elapsed() >= prove_within_) {
      reports.push_back(Cut(each->first, &taken, "it makes no call that could be let in"));
    } else if (!taken.proven && !taken.cut && ReceivedBytes(taken.fd) > kMostUnproven) {
      reports.push_back(CutFlood(each->first, &taken, "it says too much before a call is let in"));
    }
    if (!taken.proven && taken.cut) ++going;
    ++each;
  }
  for (auto each = flooders_.begin(); each != flooders_.end();) {
    each = each->second.since_flood.Elapsed() >= kFloodMemory ? flooders_.erase(each)
                                                              : std::next(each);
  }
  const int64_t wanted = std::min<int64_t>(waiting, bounds_.unproven / 4 + 1);
  if (unproven() >= bounds_.unproven) {
    for (; going < wanted; ++going) reports.push_back(CutOneUnproven(rng));
  }
  return reports;
}

void TakenConnections::CutUnproven(absl::string_view why) {
  for (auto& [peer, taken] : connections_) {
    if (!taken.proven) Cut(peer, &taken, why);
  }
}

std::string TakenConnections::CutOneUnproven(Rng* rng) {
  std::vector<VictimCandidate> candidates;
  std::vector<std::pair<const std::string, Taken>*> owners;
  for (auto& each : connections_) {
    if (each.second.proven || each.second.cut) continue;
    candidates.push_back({each.second.address, /*silent=*/false});
    owners.push_back(&each);
  }
  if (candidates.empty()) return "";
  auto& [peer, taken] = *owners[ChooseVictim(candidates, rng)];
  return Cut(peer, &taken, "too many connections have not been let in");
}

std::string TakenConnections::Cut(const std::string& peer, Taken* taken, absl::string_view why) {
  taken->cut = true;
  if (!taken->ended()) CutSocket(taken->fd);
  return absl::StrCat("the connection of ", peer, " was cut: ", why);
}

std::string TakenConnections::CutFlood(const std::string& peer, Taken* taken,
                                       absl::string_view why) {
  flooded_ = true;
  Flooder& flooder =
      flooders_.try_emplace(taken->address, Flooder{Timer(clock_), Timer(clock_)}).first->second;
  flooder.since_flood = Timer(clock_);
  return Cut(peer, taken, why);
}

}  // namespace ding
