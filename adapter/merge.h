// Merges the messages of several learners into one, and splits the answers again, for the learner
// aggregator. RankQueues collects a message of each learner.
//
//     demands  [16 rows] [16 rows]  ──MergeDemands──►  [32 rows]
//     data     [16 rows] [16 rows]  ◄──SplitItems────  [32 rows]
//     infos    {step 5, priorities a} {step 5, b}  ──MergeInfos──►  {step 5, priorities a b}
//
// Threads: the functions are pure; RankQueues is thread-compatible.
#ifndef DING_WORKER_ADAPTER_MERGE_H_
#define DING_WORKER_ADAPTER_MERGE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Merges demands: the batch size is the sum of all, the number of batches is the smallest, and the
// other fields come from the first demand. There must be at least one demand.
LearnerDemand MergeDemands(absl::Span<const LearnerDemand> demands);

// Splits the rows of one drawn batch: learner i gets the next rows[i] rows. Returns the encoded
// parts in the order of `rows`.
//   kInvalidArgument  the batch does not have as many rows as `rows` adds up to
//   others            from DecodeBatch()
absl::StatusOr<std::vector<std::string>> SplitItems(absl::string_view items,
                                                    absl::Span<const int64_t> rows);
// Splits a round of an on-policy policy, which may have more or fewer rows than demanded. The parts
// differ by at most one row.
absl::StatusOr<std::vector<std::string>> SplitRound(absl::string_view items, size_t learners);

// Merges reports: lists are concatenated in the order of `infos`; learner_step, learner_done and
// the other single fields come from the first report. There must be at least one report.
//   kFailedPrecondition  the learners are not at the same step, or disagree on whether they are
//                        done
absl::StatusOr<LearnerInfo> MergeInfos(absl::Span<const LearnerInfo> infos);

// The sum of CPUs, of memory and of GPUs.
Resources MergeResources(absl::Span<const Resources> learners);

// The number of messages that a learner may be ahead of the others. A data loader never gets so far
// ahead.
inline constexpr size_t kMaxRoundsAhead = 1024;

// Matches the messages of the members of one generation: the first message of each member makes the
// first round, the second message of each member the second round, and so on.
//
//     rank 0  [a1][a2]
//     rank 1  [b1]          TakeRound() ─► a1 b1; then nothing until rank 1 sends another message
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

  // Removes and returns the first message of each member, in the order of the ranks. Returns
  // nullopt if a member has no message.
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

#endif  // DING_WORKER_ADAPTER_MERGE_H_
