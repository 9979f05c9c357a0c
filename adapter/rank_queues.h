// Matches the messages of the members of one generation: the first message of each member makes the first
// round, the second message of each member the second round, and so on.
//
//     rank 0  [a1][a2]
//     rank 1  [b1]          TakeRound() ─► a1 b1; then nothing until rank 1 sends another message
//
// Threads: thread-compatible.
#ifndef DING_WORKER_ADAPTER_RANK_QUEUES_H_
#define DING_WORKER_ADAPTER_RANK_QUEUES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ding {

// The number of messages that a learner may be ahead of the others. Its data loader never gets so far ahead.
inline constexpr size_t kMaxRoundsAhead = 1024;

template <typename T>
class RankQueues {
 public:
  // Drops all messages and sets the members, in the order of their ranks. There may be none.
  void Reset(std::vector<uint32_t> members) {
    members_ = std::move(members);
    queues_.clear();
    for (const uint32_t member : members_) queues_[member];
  }

  // The members in the order of their ranks.
  const std::vector<uint32_t>& members() const { return members_; }
  // The waiting messages of a member, the oldest first.
  const std::deque<T>& queue(uint32_t member) const { return queues_.at(member); }
  void Push(uint32_t member, T message) { queues_.at(member).push_back(std::move(message)); }

  // Removes and returns the first message of each member, in the order of the ranks. Returns nullopt if a
  // member has no message.
  std::optional<std::vector<T>> TakeRound() {
    const bool complete = std::none_of(queues_.begin(), queues_.end(),
                                       [](const auto& entry) { return entry.second.empty(); });
    if (members_.empty() || !complete) return std::nullopt;
    std::vector<T> round;
    for (const uint32_t member : members_) {
      std::deque<T>& queue = queues_[member];
      round.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    return round;
  }

 private:
  std::vector<uint32_t> members_;
  std::map<uint32_t, std::deque<T>> queues_;
};

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_RANK_QUEUES_H_
