// Starts threads without exceptions.
//
// std::thread throws std::system_error when the system refuses a thread: the limit of processes
// (ulimit -u, or pids.max of a container) or of address space (ulimit -v) is reached. Nothing of
// ours catches that, so the program would abort. All code outside of tests starts its threads here.
//
// Threads: thread-safe.
//
// Example:
//   DING_ASSIGN_OR_RETURN(thread_, StartThread("the timer of the coordinator", [this] { Run(); }));
#ifndef DING_WORKER_BASE_THREAD_H_
#define DING_WORKER_BASE_THREAD_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ding {

// A running thread that executes `body`; the caller joins it. `purpose` names it in the error.
//   kResourceExhausted  the system refuses a thread; the message says which limits to look at
absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body);

// Whether the system gives this process `count` more threads at a time, which are started, and ended
// again. For main(), on behalf of libraries that abort the program when they get none. The system may
// say something else a moment later.
//   kResourceExhausted  as above; says how many there could be
absl::Status CheckThreads(int count);

}  // namespace ding

#endif  // DING_WORKER_BASE_THREAD_H_
