// A loop for collectors of samples: steps all ready envs until each wanted player has enough of them, and
// makes training data of all its rows. SampleSerialCollector and BattleSampleSerialCollector are this loop.
//
// With CollectAttributes::unroll_len 1 a sample is a row. With T > 1 it is T consecutive rows of one
// episode of a player, counted from the first row of the episode; the rows that are left at the end of an
// episode are one sample, too. The sample of a running episode counts when its last row is there:
//
//     T = 3    collect of 2 samples ─────────────┐   collect of 2 samples ─┐
//     env 0    a0 a1 a2 | a3 a4 (a ends) | b0 b1 │ b2 | b3 b4 b5 |         │
//     samples         1                2         │  1           2
//
// All rows are returned, also those of unfinished samples. The policy cuts samples in GetTrainSample(),
// or a buffer draws them along the links of the rows. The unfinished sample of an off-policy policy goes
// on in the next collect. An on-policy policy cuts its rows at the end of each collect, so the next one
// begins new samples.
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

  // Collects until every player in `wanted` (ascending) has CollectOptions::target samples; the default
  // is n_sample of the first player's policy. Rows of other players are dropped.
  absl::StatusOr<Collected> Collect(absl::Span<const int> wanted, const CollectOptions& options);

 private:
  absl::StatusOr<int64_t> Target(const CollectOptions& options);
  absl::StatusOr<std::vector<SegmentBatch>> TryCollect(absl::Span<const int> wanted,
                                                       const CollectOptions& options);
  // Returns the least number of samples of a player in `wanted`.
  int64_t ReadySamples(absl::Span<const int> wanted) const;
  // Whether a sample of every player is a row.
  bool SamplesAreRows() const;

  CollectCore* const core_;
  int64_t most_rows_ = 0;             // the rows of a player in the last collect, at most
  std::set<int64_t> warned_targets_;  // targets not a multiple of the number of envs
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECT_ROWS_H_
