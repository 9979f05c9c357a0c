#include "ding_worker/adapter/group_demands.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/adapter/merge.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/control/protocol.h"
#include "ding_worker/interaction/control/session.h"

namespace ding {
namespace {

// Below the coordinator's limits for one worker, so that it never disconnects the whole group for
// the fault of one learner.
constexpr size_t kMaxWaitingDemands = 32;
constexpr size_t kMaxUnreadDemands = 512;

}  // namespace

void GroupDemands::EndGeneration() {
  waiting_.Reset({});
  for (auto& [sequence, sent] : sent_) {
    sent.parts.clear();
    sent.unread.clear();
  }
}

void GroupDemands::EndTask() {
  waiting_.Reset({});
  sent_.clear();
  read_ = demanded_;
}

absl::Status GroupDemands::Add(uint32_t learner, const LearnerDemand& demand) {
  // If no learner's demand is greater than its share, the coordinator accepts the demand of the
  // group.
  LearnerDemand of_all = demand;
  DING_RETURN_IF_ERROR(CheckDemand(demand));
  DING_RETURN_IF_ERROR(Annotate(CheckSteps(demand.train_iter()), "train iterations"));
  of_all.set_batch_size(demand.batch_size() * static_cast<int64_t>(waiting_.members().size()));
  DING_RETURN_IF_ERROR(
      Annotate(CheckDemand(of_all), "if all learners of the group demanded the same"));
  const size_t ahead = waiting_.queue(learner).size();
  if (ahead >= kMaxRoundsAhead) {
    return absl::ResourceExhaustedError(
        absl::StrCat(ahead, " demands wait for the other learners of the group, expected fewer"));
  }
  std::vector<Sent*> read;
  for (auto& [sequence, sent] : sent_) {
    for (const Part& part : sent.parts) {
      if (part.learner != learner || part.sequence > demand.read()) continue;
      if (!sent.answered) {
        return absl::InvalidArgumentError(absl::StrCat("data are read up to demand ", demand.read(),
                                                       ", but demand ", part.sequence,
                                                       " is not answered"));
      }
      read.push_back(&sent);
    }
  }
  for (Sent* const sent : read) sent->unread.erase(learner);
  LearnerDemand kept = demand;
  kept.DiscardUnknownFields();
  waiting_.Push(learner, std::move(kept));
  return absl::OkStatus();
}

std::optional<LearnerDemand> GroupDemands::Next() {
  if (!MayDemand()) return std::nullopt;
  const std::optional<std::vector<LearnerDemand>> round = waiting_.TakeRound();
  if (!round.has_value()) return std::nullopt;
  LearnerDemand merged = MergeDemands(*round);
  merged.set_sequence(++demanded_);
  merged.set_read(ReadUpTo());
  Sent& sent = sent_[demanded_];
  sent.is_round = merged.collect_iter_size() > 0;
  for (size_t rank = 0; rank < round->size(); ++rank) {
    const uint32_t learner = waiting_.members()[rank];
    sent.parts.push_back({learner, (*round)[rank].sequence(), (*round)[rank].batch_size()});
    sent.unread.insert(learner);
  }
  return merged;
}

absl::StatusOr<std::vector<GroupDemands::Share>> GroupDemands::Split(const LearnerData& data) {
  std::vector<Share> shares;
  const auto found = sent_.find(data.sequence());
  if (found == sent_.end() || std::exchange(found->second.answered, true)) return shares;
  if (found->second.parts.empty()) return shares;  // The demand's generation is over.
  std::vector<int64_t> rows;
  for (const Part& part : found->second.parts) {
    Share& share = shares.emplace_back();
    share.learner = part.learner;
    LearnerData* const answer = share.message.mutable_learner_data();
    answer->set_task_id(data.task_id());
    answer->set_sequence(part.sequence);
    answer->set_envstep(data.envstep());
    rows.push_back(part.rows);
  }
  for (const std::string& items : data.items()) {
    DING_ASSIGN_OR_RETURN(
        const std::vector<std::string> parts,
        found->second.is_round ? SplitRound(items, shares.size()) : SplitItems(items, rows));
    for (size_t i = 0; i < shares.size(); ++i) {
      shares[i].message.mutable_learner_data()->add_items(parts[i]);
    }
  }
  return shares;
}

bool GroupDemands::MayDemand() {
  const uint64_t unread = demanded_ - ReadUpTo();
  const auto unanswered = static_cast<size_t>(std::count_if(
      sent_.begin(), sent_.end(), [](const auto& entry) { return !entry.second.answered; }));
  return unanswered < kMaxWaitingDemands && unread < kMaxUnreadDemands;
}

uint64_t GroupDemands::ReadUpTo() {
  while (!sent_.empty() && sent_.begin()->second.answered && sent_.begin()->second.unread.empty()) {
    read_ = sent_.begin()->first;
    sent_.erase(sent_.begin());
  }
  return read_;
}

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
