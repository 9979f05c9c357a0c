// The coordinator's side of the wire: listens for workers, greets them, hands their messages to the
// coordinator and its answers to them.
//
//     Listener ──► a session and a thread per worker ──Handle──► Coordinator
//                                  ▲                                 │
//                                  └────────────── Send ─────────────┘
//
// A worker is admitted if it speaks this protocol and, if it was started with a config, with the
// coordinator's. Whatever it sends, the others go on: one that sends what is no message is
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
    std::string address;  // where to listen, in the transport's terms
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
  // Waits until all workers have left, at most `timeout`. False: some have not.
  bool WaitForWorkersToLeave(absl::Duration timeout);
  // Disconnects all, who are told `reason`; may be repeated.
  void Close(absl::string_view reason);

  // Of Coordinator. A worker that takes no messages is disconnected.
  void Send(uint32_t worker, const CoordinatorMessage& message) override;

 private:
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
  absl::StatusOr<Hello> Greet(uint32_t worker, Session* session);
  absl::Status CheckHello(const Hello& hello) const;
  absl::Status Answer(uint32_t worker, const Hello& hello, const WorkerMessage& message,
                      Session* session);

  const Options options_;
  const std::unique_ptr<Listener> listener_;
  Coordinator* coordinator_ = nullptr;
  std::thread listening_;
  Mutex mutex_;
  CondVar changed_;  // peers_
  std::map<int64_t, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::shared_ptr<Session>> workers_ ABSL_GUARDED_BY(mutex_);
  uint32_t last_worker_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMM_COORDINATOR_H_
