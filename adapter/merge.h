// How what several learners say becomes what one would say, and back: the rules of the learner
// aggregator.
//
//     demands  [16 rows] [16 rows]  ──MergeDemands──►  [32 rows]
//     data     [16 rows] [16 rows]  ◄──SplitItems────  [32 rows]
//     infos    {step 5, priorities a} {step 5, b}  ──MergeInfos──►  {step 5, priorities a b}
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ADAPTER_MERGE_H_
#define DING_WORKER_ADAPTER_MERGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

// Batches of as many rows as all want together, as many batches as the one who wants fewest; the rest
// is the first one's. At least one demand.
LearnerDemand MergeDemands(absl::Span<const LearnerDemand> demands);

// Rows of one drawn batch for learners that demanded `rows` each, in that order.
//   kInvalidArgument  not as many rows as all demanded
//   else              of DecodeBatch()
absl::StatusOr<std::vector<std::string>> SplitItems(absl::string_view items,
                                                    absl::Span<const int64_t> rows);

// Lists one behind the other; learner_step, learner_done and what else there is one of, of the first.
// At least one info.
//   kFailedPrecondition  the learners are not at the same step, or not all done
absl::StatusOr<LearnerInfo> MergeInfos(absl::Span<const LearnerInfo> infos);

// What all have together; gpus: how many learners there are.
Resources MergeResources(absl::Span<const Resources> learners);

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_MERGE_H_
