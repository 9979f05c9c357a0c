// The result of one Collect() of a RowCollection or an EpisodeCollection: the data of each player and the
// episodes that finished.
//
// Ownership: values.   Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_CORE_COLLECTED_H_
#define DING_WORKER_COLLECTOR_CORE_COLLECTED_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"

namespace ding {

// A finished episode.
struct CollectedEpisode {
  int env_id = 0;
  absl::InlinedVector<double, 2> returns;  // of each player
  int64_t length = 0;
  int64_t samples =
      0;  // samples of it that were returned (with an unroll_len of 1: rows), of all players
  int64_t last_step = 0;                  // step of its last row in the stream
  NamedValues info;                       // StepResult::info
  std::vector<double> component_returns;  // FinishedEpisode::component_returns
};

struct Collected {
  std::vector<SegmentBatch> players;       // empty for players that are not collected
  std::vector<CollectedEpisode> episodes;  // finished episodes, env by env
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_COLLECTED_H_
