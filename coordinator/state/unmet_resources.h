// Says why no worker can be given a task that needs certain resources.
//
// Threads: thread-safe.
#ifndef DING_WORKER_COORDINATOR_STATE_UNMET_RESOURCES_H_
#define DING_WORKER_COORDINATOR_STATE_UNMET_RESOURCES_H_

#include <optional>
#include <string>

#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {

// Returns a sentence if no worker of the role has all resources that the task needs. It says what the task needs, by the
// names of the config's fields, and what the worker has that lacks least. Workers that have a task count; those that are
// draining do not. Returns nullopt if a worker has all of them, and if there is no worker of the role.
std::optional<std::string> FindUnmet(Hello::Role role, const std::string& task_id,
                                     const Resources& needed, const WorkerRoster& workers);

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_UNMET_RESOURCES_H_
