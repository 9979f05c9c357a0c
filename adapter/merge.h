// The rules by which the learner aggregator merges the messages of several learners into one, and splits the
// answers again.
//
//     demands  [16 rows] [16 rows]  ──MergeDemands──►  [32 rows]
//     data     [16 rows] [16 rows]  ◄──SplitItems────  [32 rows]
//     infos    {step 5, priorities a} {step 5, b}  ──MergeInfos──►  {step 5, priorities a b}
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ADAPTER_MERGE_H_
#define DING_WORKER_ADAPTER_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Merges demands: the batch size is the sum of all, the number of batches is the smallest, and the other
// fields are those of the first demand. There must be at least one demand.
LearnerDemand MergeDemands(absl::Span<const LearnerDemand> demands);

// Splits the rows of one drawn batch: learner i gets the next rows[i] rows. Returns the encoded parts in the
// order of `rows`.
//   kInvalidArgument  the batch has not the sum of `rows` rows
//   others            from DecodeBatch()
absl::StatusOr<std::vector<std::string>> SplitItems(absl::string_view items,
                                                    absl::Span<const int64_t> rows);
// Splits a round of an on-policy policy, which may have more or fewer rows than were demanded: each learner gets as many
// as the others, or one more.
absl::StatusOr<std::vector<std::string>> SplitRound(absl::string_view items, size_t learners);

// Merges reports: lists are concatenated in the order of `infos`; learner_step, learner_done and the other
// single fields are those of the first report. There must be at least one report.
//   kFailedPrecondition  the learners are not at the same step, or disagree on whether they are done
absl::StatusOr<LearnerInfo> MergeInfos(absl::Span<const LearnerInfo> infos);

// The sum of CPUs, of memory and of GPUs.
Resources MergeResources(absl::Span<const Resources> learners);

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_MERGE_H_
