// A task that was given to a worker.
#ifndef DING_WORKER_COORDINATOR_STATE_TASK_STATE_H_
#define DING_WORKER_COORDINATOR_STATE_TASK_STATE_H_

#include <cstdint>
#include <string>

#include "ding_worker/interaction/messages.pb.h"

namespace ding {

struct TaskState {
  std::string task_id;
  Hello::Role kind = Hello::COLLECTOR;  // the role of the workers that run such tasks
  uint32_t worker = 0;                  // the worker that runs it
  int64_t start_nanos = 0;              // when it started, by the coordinator's monotonic clock
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_TASK_STATE_H_
