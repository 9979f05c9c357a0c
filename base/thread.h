// Starts threads, with an error instead of an exception when the system refuses one.
//
// std::thread throws std::system_error when the limit of processes (ulimit -u, or pids.max of a container) or
// of address space (ulimit -v) is reached. Our code does not catch it, so that the program would abort. All
// code outside of tests starts its threads here.
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

// Starts a thread that executes `body`; the caller must join it. `purpose` names it in the error.
//   kResourceExhausted  the system refuses a thread; the message says which limits to raise
absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body);

// Checks that this process can have `count` more threads at a time: starts them and ends them again. For
// main(), on behalf of libraries that abort the program when they cannot start a thread. It is a snapshot:
// the system may refuse threads a moment later.
//   kResourceExhausted  as above; the message says how many threads could be started
absl::Status CheckThreads(int count);

}  // namespace ding

#endif  // DING_WORKER_BASE_THREAD_H_
