#include "ding_worker/adapter/merge.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/wire.h"

namespace ding {

LearnerDemand MergeDemands(absl::Span<const LearnerDemand> demands) {
  LearnerDemand merged = demands.front();
  for (const LearnerDemand& demand : demands.subspan(1)) {
    merged.set_batch_size(merged.batch_size() + demand.batch_size());
    merged.set_batches(std::min(merged.batches(), demand.batches()));
  }
  return merged;
}

namespace {

std::vector<std::string> Parts(const Batch& batch, absl::Span<const int64_t> rows) {
  std::vector<std::string> parts;
  int64_t begin = 0;
  for (const int64_t share : rows) {
    parts.push_back(EncodedBatch(batch.Slice(begin, share)).ToString());
    begin += share;
  }
  return parts;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitItems(absl::string_view items,
                                                    absl::Span<const int64_t> rows) {
  DING_ASSIGN_OR_RETURN(const Batch batch, DecodeBatch(items));
  int64_t wanted = 0;
  for (const int64_t share : rows) wanted += share;
  if (batch.rows() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch.rows(), " rows for learners that demanded ",
                     absl::StrJoin(rows, " + "), ", expected ", wanted));
  }
  return Parts(batch, rows);
}

absl::StatusOr<std::vector<std::string>> SplitRound(absl::string_view items, size_t learners) {
  DING_ASSIGN_OR_RETURN(const Batch round, DecodeBatch(items));
  const auto parts = static_cast<int64_t>(learners);
  std::vector<int64_t> rows(learners, round.rows() / parts);
  for (int64_t i = 0; i < round.rows() % parts; ++i) ++rows[static_cast<size_t>(i)];
  return Parts(round, rows);
}

absl::StatusOr<LearnerInfo> MergeInfos(absl::Span<const LearnerInfo> infos) {
  LearnerInfo merged = infos.front();
  for (const LearnerInfo& info : infos.subspan(1)) {
    if (info.learner_step() != merged.learner_step() ||
        info.learner_done() != merged.learner_done()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a learner is at step ", info.learner_step(), info.learner_done() ? " (done)" : "",
          ", but the first learner of its group is at step ", merged.learner_step(),
          merged.learner_done() ? " (done)" : "", "; expected all to be at the same step"));
    }
    merged.mutable_priority()->MergeFrom(info.priority());
    merged.mutable_replay_unique_id()->MergeFrom(info.replay_unique_id());
    merged.mutable_replay_buffer_idx()->MergeFrom(info.replay_buffer_idx());
    if (merged.stop_request().empty() && info.has_stop_request()) {
      merged.set_stop_request(info.stop_request());
    }
  }
  return merged;
}

Resources MergeResources(absl::Span<const Resources> learners) {
  Resources merged;
  for (const Resources& resources : learners) {
    merged.set_cpus(merged.cpus() + resources.cpus());
    merged.set_memory_bytes(merged.memory_bytes() + resources.memory_bytes());
    merged.set_gpus(merged.gpus() + resources.gpus());
  }
  return merged;
}

}  // namespace ding
