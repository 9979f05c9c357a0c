#include "ding_worker/adapter/group_infos.h"

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/adapter/merge.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/message_checks.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/control/session.h"

namespace ding {

absl::Status GroupInfos::Add(uint32_t learner, const LearnerInfo& info) {
  DING_RETURN_IF_ERROR(CheckLearnerInfo(info));
  DING_RETURN_IF_ERROR(CheckPriorities(info));
  if (!info.stalled().empty()) {
    // All learners wait for the same thing, so that the report of rank 0 is enough.
    if (learner != waiting_.members().front()) return absl::OkStatus();
    stalled_.emplace();
    stalled_->set_task_id(info.task_id());
    stalled_->set_learner_step(info.learner_step());
    stalled_->set_stalled(info.stalled());
    return absl::OkStatus();
  }
  const std::deque<LearnerInfo>& queue = waiting_.queue(learner);
  size_t bytes = info.ByteSizeLong();
  for (const LearnerInfo& ahead : queue) bytes += ahead.ByteSizeLong();
  // The reports of all learners must fit into one message together.
  const size_t max_bytes =
      static_cast<size_t>(kMaxSessionMessageBytes) / 2 / waiting_.members().size();
  if (queue.size() >= kMaxRoundsAhead || bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(queue.size() + 1, " reports of ", bytes,
                     " bytes wait for the other learners of the group, expected at most ",
                     kMaxRoundsAhead, " reports and ", max_bytes, " bytes"));
  }
  waiting_.Push(learner, info);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LearnerInfo>> GroupInfos::Next() {
  if (stalled_.has_value()) return std::exchange(stalled_, std::nullopt);
  const std::optional<std::vector<LearnerInfo>> round = waiting_.TakeRound();
  if (!round.has_value()) return std::nullopt;
  DING_ASSIGN_OR_RETURN(LearnerInfo merged, MergeInfos(*round));
  return std::make_optional(std::move(merged));
}

std::optional<LearnerInfo> GroupInfos::LastOfRun() const {
  if (waiting_.members().empty()) return std::nullopt;
  const std::deque<LearnerInfo>& queue = waiting_.queue(waiting_.members().front());
  if (queue.empty() || !queue.back().learner_done()) return std::nullopt;
  return queue.back();
}

}  // namespace ding
