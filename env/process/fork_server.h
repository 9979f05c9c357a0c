// A process that forks children on request. It has only one thread, so that a child can be replaced
// at any time, even if the parent has started threads.
//
//     parent ──fork, in Start()──► server ──fork, at Spawn(2)──► keeper 2 ──fork──► child 2: run(2)
//        │                           │ ▲                            ▲                  │    │ forks
//        └── socket: spawn, kill ───►│ └── stderr of child 2        └── orphans ◄──────┴─── ...
//        ◄── shared memory: the state and the last lines of each child
//
// No process outlives the parent, even after SIGKILL: the server sees the socket close and has the
// children killed, and the children die with the server, too (PR_SET_PDEATHSIG). All processes that
// a child has started end with it, in any group or session: the child leads a process group, which
// is killed. A process that has left the group is adopted and killed by the child's keeper
// (PR_SET_CHILD_SUBREAPER), or by the server if the keeper was killed. Each reaps the processes
// that it adopts. The parent has one child, the server, which the destructor reaps.
//
// The stderr of children goes to the parent's stderr; its last 4 kB are kept for error messages.
// Children have no terminal, and their stdin is empty.
//
// Start() forks the calling process: call it before the program starts threads. (Later, it works
// only if children need no locks that other threads held at that moment.) Children inherit all open
// files. Output in the parent's buffers is not written twice, since children end without flushing.
//
// Ownership: the destructor ends the server and all children.
// Threads:   thread-compatible; on_end runs in the server process.
// Errors:    Spawn() and Kill() fail with kInternal if the server is gone. The failure of a child
//            is its wait_status(), not an error.
#ifndef DING_WORKER_ENV_PROCESS_FORK_SERVER_H_
#define DING_WORKER_ENV_PROCESS_FORK_SERVER_H_

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
    // Runs in the child, which then exits with the returned code.
    std::function<int(int child)> run;
    // Called in the server when a child has ended; state() then is kEnded already.
    std::function<void(int child)> on_end = [](int) {};
  };
  enum class State { kNone, kRunning, kEnded };

  // Forks the server. No child runs yet.
  //   kUnavailable  the system refuses a process, a socket or memory
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start(Options options);
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;
  ~ForkServer();

  // Asks the server to fork this child, which must not be running. A failed fork appears as the end
  // of the child with a negative wait_status(). kInternal if the server is gone.
  absl::Status Spawn(int child);
  // Asks the server to have the child and its group killed (SIGKILL); state() shows when it has
  // ended. kInternal if the server is gone.
  absl::Status Kill(int child);
  // kRunning from Spawn() on.
  State state(int child) const;
  // Waits for the end of the child, polling every millisecond. Returns false on a timeout, or if
  // the server is gone.
  bool WaitForEnd(int child, absl::Duration timeout) const;
  // OK while the server lives.
  absl::Status Alive() const;

  pid_t pid(int child) const;
  pid_t server_pid() const { return server_; }
  // The status of an ended child as wait() returns it; if it is negative, the negated errno of a
  // fork that failed.
  int wait_status(int child) const;
  // "was killed by signal 11 (Segmentation fault)", "exited with code 3".
  std::string HowItEnded(int child) const;
  // The last lines that the child wrote to stderr, without the newline at the end.
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

#endif  // DING_WORKER_ENV_PROCESS_FORK_SERVER_H_
