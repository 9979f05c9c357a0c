// The coordinator's side of the wire: listens for workers, greets them, hands their messages to the
// coordinator and its answers to them.
//
//     Listener ──► a session and a thread per worker ──Handle──► Coordinator
//                                  ▲                                 │
//                                  └────────────── Send ─────────────┘
//
// A worker is admitted if it speaks this protocol, in the role of the token that it has shown to the
// transport (if that asks for one) and, if it was started with a config, with the coordinator's.
// Whatever it sends, the others go on: one that sends what is no message is
// disconnected with the reason.
//
// Ownership: transport and coordinator outlive it.
// Threads:   thread-safe. Has a thread that listens and one per worker; Close() joins them.
#ifndef DING_WORKER_COORDINATOR_COMM_COORDINATOR_H_
#define DING_WORKER_COORDINATOR_COMM_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/session.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

class CommCoordinator : public CoordinatorSender {
 public:
  static constexpr int kMaxWorkers = 1000;

  struct Options {
    int max_workers = kMaxWorkers;  // connections at a time, at least 1; others are closed
    absl::Duration hello_timeout = absl::Seconds(5);  // for the first message
    std::string address;                              // where to listen, in the transport's terms
    // What workers are told; its version and worker number are filled in.
    Welcome welcome;
    // Of a worker that was started with a config: it must be the same. Empty: none is.
    std::string config_digest;
    SessionOptions session;
    // Told of every worker that left or was lost, and why. May be empty; must not wait.
    std::function<void(const Hello&, const absl::Status&)> on_worker_lost;
  };

  //   kAlreadyExists    somebody listens there: another coordinator
  //   kInvalidArgument  not an address
  static absl::StatusOr<std::unique_ptr<CommCoordinator>> Create(Options options,
                                                                 Transport* transport);
  ~CommCoordinator() override;  // as Close()

  // Where workers connect to.
  const std::string& address() const { return listener_->address(); }

  // Admits workers from now on. Once.
  void Start(Coordinator* coordinator);
  // Waits until all workers have left, at most `timeout`. False: some have not. Operators may stay.
  bool WaitForWorkersToLeave(absl::Duration timeout);
  // Disconnects all, who are told `reason`; may be repeated. The coordinator's run has ended before:
  // a worker whose data wait for room in a buffer is served until then.
  void Close(absl::string_view reason);

  // Of Coordinator. A worker that takes no messages is disconnected.
  void Send(uint32_t worker, const CoordinatorMessage& message) override;

 private:
  struct Worker {
    std::shared_ptr<Session> session;
    absl::Status stuck;  // OK, or why nothing is sent to it any more
  };
  struct Peer {
    std::shared_ptr<Session> session;
    std::thread thread;
    bool finished = false;
  };

  CommCoordinator(Options options, std::unique_ptr<Listener> listener);

  void Listen();
  void JoinFinished();
  // Of one peer, on its thread.
  void Serve(int64_t peer, const std::shared_ptr<Session>& session);
  absl::Status ServeAdmitted(uint32_t worker, const Hello& hello,
                             const std::shared_ptr<Session>& session);
  // Of an admitted worker: whether it takes what is sent to it.
  absl::Status TakesMessages(uint32_t worker) const;
  absl::StatusOr<Hello> Greet(Session* session, uint32_t* worker);
  absl::Status CheckHello(const Hello& hello, absl::string_view identity) const;
  absl::Status Answer(uint32_t worker, const Hello& hello, const WorkerMessage& message,
                      Session* session);

  const Options options_;
  const std::unique_ptr<Listener> listener_;
  Coordinator* coordinator_ = nullptr;
  std::thread listening_;
  mutable Mutex mutex_;
  CondVar changed_;  // peers_, workers_
  std::map<int64_t, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Worker> workers_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMM_COORDINATOR_H_
