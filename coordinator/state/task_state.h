// A task that was given to a worker.
#ifndef DING_WORKER_COORDINATOR_STATE_TASK_STATE_H_
#define DING_WORKER_COORDINATOR_STATE_TASK_STATE_H_

#include <cstdint>
#include <string>

#include "ding_worker/interaction/messages.pb.h"

namespace ding {

struct TaskState {
  std::string task_id;
  Hello::Role kind = Hello::COLLECTOR;  // of the workers that run such tasks
  uint32_t worker = 0;                  // that runs it
  int64_t start_nanos = 0;              // monotonic, of the coordinator's clock
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_TASK_STATE_H_
