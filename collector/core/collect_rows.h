// A loop for collectors of rows: steps all ready envs until each wanted player has enough rows, and makes
// training data of them. SampleSerialCollector and BattleSampleSerialCollector are this loop.
//
// With an on-policy policy, rows that wait for the end of their episode are dropped at the end of a collect.
//
// Ownership: the core must outlive it.   Threads: thread-compatible.
// Errors:    as ISerialCollector::Collect(); errors name the collector. After an error the rows made so far stay
//            in the core, and the next Collect() returns them.
//
// Example:
//   RowCollection rows(core.get());
//   DING_ASSIGN_OR_RETURN(Collected collected, rows.Collect({0}, options));
//   return std::move(collected.players[0]);
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECT_ROWS_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECT_ROWS_H_

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/core/collected.h"
#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/segment.h"

namespace ding {

class RowCollection {
 public:
  explicit RowCollection(CollectCore* core) : core_(core) {}

  // Collects until every player in `wanted` (ascending) has CollectOptions::target rows; the default is n_sample
  // of the first player's policy. Rows of other players are dropped.
  absl::StatusOr<Collected> Collect(absl::Span<const int> wanted, const CollectOptions& options);

 private:
  absl::StatusOr<int64_t> Target(const CollectOptions& options);
  absl::StatusOr<std::vector<SegmentBatch>> TryCollect(absl::Span<const int> wanted,
                                                       const CollectOptions& options);
  // Returns the least number of rows of a player in `wanted`.
  int64_t ReadyRows(absl::Span<const int> wanted) const;

  CollectCore* const core_;
  std::set<int64_t> warned_targets_;  // targets not a multiple of the number of envs
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_ROWS_H_
