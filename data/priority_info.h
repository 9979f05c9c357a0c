// New priorities of rows that were drawn from a replay buffer; a learner sends them back to it.
#ifndef DING_WORKER_DATA_PRIORITY_INFO_H_
#define DING_WORKER_DATA_PRIORITY_INFO_H_

#include <cstdint>
#include <vector>

namespace ding {

// Three columns of equal length; the ids come from the drawn batch (data/sample_columns.h).
struct PriorityInfo {
  std::vector<float> priority;
  std::vector<int64_t> replay_unique_id;
  std::vector<int64_t> replay_buffer_idx;
};

}  // namespace ding

#endif  // DING_WORKER_DATA_PRIORITY_INFO_H_
