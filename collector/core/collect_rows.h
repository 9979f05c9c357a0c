// The common part of the collectors of rows: steps all ready envs until there are enough rows.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECT_ROWS_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECT_ROWS_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collect_statistics.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"

namespace ding {

// The result of one Collect().
struct Collected {
  std::vector<SegmentBatch> players;       // empty for players that are not collected
  std::vector<CollectedEpisode> episodes;  // finished episodes
};

class RowCollection {
 public:
  // Uses `core`, which must outlive this object.
  explicit RowCollection(CollectCore* core) : core_(core) {}

  // Collects until every player in `wanted` (ascending) has the target, whose default is n_sample of the
  // first player's policy. Rows of other players are dropped. Errors as for ISerialCollector::Collect().
  absl::StatusOr<Collected> Collect(absl::Span<const int> wanted, const CollectOptions& options);

 private:
  absl::StatusOr<int64_t> Target(const CollectOptions& options);
  absl::StatusOr<std::vector<SegmentBatch>> TryCollect(absl::Span<const int> wanted,
                                                       const CollectOptions& options);
  absl::Status Gather(absl::Span<const int> wanted, int64_t target, const CollectOptions& options);
  // Returns the least number of rows of a player in `wanted`.
  int64_t ReadyRows(absl::Span<const int> wanted) const;

  CollectCore* const core_;
  std::set<int64_t> warned_targets_;  // targets not a multiple of the number of envs
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_ROWS_H_
