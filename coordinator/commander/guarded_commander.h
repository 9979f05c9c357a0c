// Calls a commander that a user may have written, for the coordinator: if it throws or cannot save its state, status() is
// an error from then on, and the coordinator ends the run with it. The commander is not called again.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_GUARDED_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_GUARDED_COMMANDER_H_

#include <memory>

#include "ding_worker/coordinator/commander/base_commander.h"

namespace ding {

// Returns a commander that passes all calls on to `commander`.
std::unique_ptr<BaseCommander> GuardCommander(std::unique_ptr<BaseCommander> commander);

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_GUARDED_COMMANDER_H_
