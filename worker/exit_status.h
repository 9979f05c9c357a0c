// Exit statuses of the programs beside 0 (the run came to its end), 1 (an error) and 128 + signal.
#ifndef DING_WORKER_WORKER_EXIT_STATUS_H_
#define DING_WORKER_WORKER_EXIT_STATUS_H_

namespace ding {

// A run came to its end and could not save what it would go on with, which stays where it is.
inline constexpr int kUnsavedStatus = 3;
// A worker process that a supervisor has started has done its work: the run is over, or it
// was let go. One that ends with 0 instead was ended by something in it, such as an env that calls
// _exit(0).
inline constexpr int kGoodbyeStatus = 66;

}  // namespace ding

#endif  // DING_WORKER_WORKER_EXIT_STATUS_H_
