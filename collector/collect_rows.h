// Steps all envs that are ready, one vector step after the other, until there are so many rows:
// what the collectors of rows share.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_COLLECT_ROWS_H_
#define DING_WORKER_COLLECTOR_COLLECT_ROWS_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/collect_core.h"
#include "ding_worker/collector/collect_statistics.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"

namespace ding {

// What one Collect() gives.
struct Collected {
  std::vector<SegmentBatch> players;       // empty ones of players whose data are not wanted
  std::vector<CollectedEpisode> episodes;  // that finished
};

class RowCollection {
 public:
  // Works with `core`, which must outlive it.
  explicit RowCollection(CollectCore* core) : core_(core) {}

  // Until every player in `wanted` (ascending) has the target, which is the first player's n_sample
  // if the options do not say. Errors as of ISerialCollector::Collect(). Rows of players that are
  // not wanted are dropped.
  absl::StatusOr<Collected> Collect(absl::Span<const int> wanted, const CollectOptions& options);

 private:
  absl::StatusOr<int64_t> Target(const CollectOptions& options);
  absl::StatusOr<std::vector<SegmentBatch>> TryCollect(absl::Span<const int> wanted,
                                                       const CollectOptions& options);
  absl::Status Gather(absl::Span<const int> wanted, int64_t target, const CollectOptions& options);
  // The rows that every wanted player has.
  int64_t ReadyRows(absl::Span<const int> wanted) const;

  CollectCore* const core_;
  std::set<int64_t> warned_targets_;  // those that are no multiple of the number of envs
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_COLLECT_ROWS_H_
