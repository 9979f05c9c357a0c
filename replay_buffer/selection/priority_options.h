// The options of draws by priority; importance_weights.h has the formulas.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_OPTIONS_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_OPTIONS_H_

#include <cstdint>

namespace ding {

struct PriorityOptions {
  double alpha = 0.6;            // 0: uniform draws
  double beta = 0.4;             // 0: all importance weights 1
  int64_t anneal_step = 100000;  // draws until beta is 1; 0: it stays the same
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_PRIORITY_OPTIONS_H_
