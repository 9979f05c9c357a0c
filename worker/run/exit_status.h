// Exit statuses of the programs other than 0 (the run came to its end), 1 (an error) and 128 +
// signal.
#ifndef DING_WORKER_WORKER_RUN_EXIT_STATUS_H_
#define DING_WORKER_WORKER_RUN_EXIT_STATUS_H_

namespace ding {

// The run came to its end, but could not save its last checkpoints, or the data that it needs to continue, which
// stay where they are.
inline constexpr int kUnsavedStatus = 3;
// A worker process that was started by a supervisor has done its work: the run is over, or the
// coordinator let it go. If such a process ends with 0 instead, something in it ended it, such as
// an env that calls _exit(0).
inline constexpr int kGoodbyeStatus = 66;

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_EXIT_STATUS_H_
