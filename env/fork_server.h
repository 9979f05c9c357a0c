// A process that forks children on request, so that they can be replaced at any time: it has one
// thread, however many the parent starts later.
//
//     parent ──fork, in Start()──► server ──fork, at Spawn(2)──► keeper 2 ──fork──► child 2: run(2)
//        │                           │ ▲                            ▲                  │    │ forks
//        └── socket: spawn, kill ───►│ └── stderr of child 2        └── orphans ◄──────┴─── ...
//        ◄── shared memory: what became of each child, its last lines
//
// No process outlives the parent, however that ends: the server sees the socket close and has the
// children killed; they die with the server, too (PR_SET_PDEATHSIG). What a child has started ends with
// it, in whatever group or session that is: the child leads a process group, which is killed, and what
// leaves that is adopted by the child's keeper (PR_SET_CHILD_SUBREAPER), or by the server if somebody has
// killed the keeper. Whoever adopts reaps; the parent has one child, the server, and reaps that in the
// destructor.
//
// The stderr of children appears on the parent's; its last 4 kB are kept for error messages.
//
// Start() forks the calling process: call it before the program starts threads. (After, it works as
// far as the C library allows: children must not need what other threads held at that moment.)
// Children inherit all that is open; a child's output still in buffers of the parent at that time
// is not repeated, since they end without flushing.
//
// Ownership: ends server and children when destroyed.
// Threads:   thread-compatible.
#ifndef DING_WORKER_ENV_FORK_SERVER_H_
#define DING_WORKER_ENV_FORK_SERVER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace ding {

class ForkServer {
 public:
  struct Options {
    int num_children = 1;
    // What a child does; it then exits with this code.
    std::function<int(int child)> run;
    // Called in the server when a child has ended, after that is known to state().
    std::function<void(int child)> on_end = [](int) {};
  };
  enum class State { kNone, kRunning, kEnded };

  //   kUnavailable  the system refuses a process, a socket or memory
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start(Options options);
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;
  ~ForkServer();

  // Has the server fork this child, which must not be running. That it could not be forked shows as
  // its end. kInternal if the server is gone.
  absl::Status Spawn(int child);
  // Has the server send SIGKILL to the child and its group; its end shows in state().
  absl::Status Kill(int child);
  // kRunning from Spawn() on.
  State state(int child) const;
  // Waits, looking every millisecond; false if the child has not ended in time.
  bool WaitForEnd(int child, absl::Duration timeout) const;
  // OK while the server lives.
  absl::Status Alive() const;

  pid_t pid(int child) const;
  pid_t server_pid() const { return server_; }
  // How a child has ended, as wait() gives it; negative: errno of a fork that failed.
  int wait_status(int child) const;
  // "was killed by signal 11 (Segmentation fault)", "exited with code 3".
  std::string HowItEnded(int child) const;
  // The last lines that it wrote to stderr, without the newline at the end.
  std::string LastLines(int child, int lines) const;

 private:
  struct Shared;
  class Server;

  ForkServer(Shared* shared, size_t shared_bytes, int num_children);
  absl::Status Send(char what, int child);

  Shared* const shared_;
  const size_t shared_bytes_;
  const int num_children_;
  int socket_ = -1;
  pid_t server_ = -1;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_FORK_SERVER_H_
