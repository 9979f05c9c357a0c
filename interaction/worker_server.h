// The side of the control plane that workers join: listens for them, greets them, hands their messages
// to whoever gives them work, a coordinator or a learner aggregator, and its answers to them.
//
//     Listener ──► a session per peer ──Hello──► a thread per admitted worker ──Handle──► WorkerHandler
//                                                                   ▲                          │
//                                                                   └────────── Send ──────────┘
//
// A worker is admitted if it speaks this protocol, in the role of the token that it has shown to the
// transport (if that asks for one), if it was started with the run's config or with none, and if
// check_hello and the handler say so. Whatever it sends, the others go on: one that sends what is no message is
// disconnected with the reason.
//
// A peer costs no thread before it is admitted, and little memory; one whose thread the system refuses is
// refused, and the others go on. All sessions together hold kServerSessionBytes at most (session_budget.h).
//
// Ownership: transport and handler outlive it.
// Threads:   thread-safe. Has a thread that listens, one that greets, and one per admitted worker; Close()
//            joins them.
#ifndef DING_WORKER_INTERACTION_WORKER_SERVER_H_
#define DING_WORKER_INTERACTION_WORKER_SERVER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/deadline.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/rate_bound.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/session.h"
#include "ding_worker/interaction/session_pump.h"
#include "ding_worker/interaction/transport.h"

namespace ding {

// Who gives work to those that join.
class WorkerHandler {
 public:
  virtual ~WorkerHandler() = default;

  // A number for a worker that wants to join, which none had before.
  //   kFailedPrecondition ...  it may not: says why
  virtual absl::StatusOr<uint32_t> Admit(const Hello& hello) = 0;
  // A worker that was admitted. `peer` is for people.
  virtual void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) = 0;
  virtual void WorkerLost(uint32_t worker, const absl::Status& why) = 0;
  // Called by one thread per worker at a time. An error: what it sent cannot be; it is disconnected.
  virtual absl::Status Handle(uint32_t worker, const WorkerMessage& message) = 0;
  // What an operator asks for.
  virtual OperatorReply Operate(const OperatorRequest& request) = 0;
  // 1, and one more with each handler that goes on with the work of the one before.
  virtual int32_t incarnation() const { return 1; }
  // For those who ask.
  virtual RunStatus status() const = 0;
};

// How a handler talks to workers.
class WorkerSender {
 public:
  virtual ~WorkerSender() = default;

  // Queues a message behind those sent before to this worker, and returns: it may be called under the
  // handler's lock, does not wait for a worker, and does not call the handler. A worker that is gone
  // is no error: WorkerLost() says so. One that takes no messages is disconnected.
  virtual void Send(uint32_t worker, const CoordinatorMessage& message) = 0;
};

class WorkerServer : public WorkerSender {
 public:
  static constexpr int kMaxWorkers = 1000;
  static constexpr int kReportsPerSecond = 5;

  struct Options {
    int max_workers = kMaxWorkers;  // connections at a time, at least 1; others are closed
    absl::Duration hello_timeout = absl::Seconds(5);  // for the first message
    std::string address;                              // where to listen, in the transport's terms
    // What workers are told; its version and worker number are filled in.
    Welcome welcome;
    // Of a worker that was started with a config: it must be the same. Empty: none is.
    std::string config_digest;
    SessionOptions session;
    // Whether this one may join, by what it says of itself. May be empty.
    std::function<absl::Status(const Hello&)> check_hello;
    // Told who was turned away, in a sentence for the log: at most kReportsPerSecond, and then how many
    // were left out. May be empty; must not wait.
    std::function<void(const std::string&)> report;
    // Told of every worker that left or was lost, and why. May be empty; must not wait.
    std::function<void(const Hello&, const absl::Status&)> on_worker_lost;
  };

  //   kAlreadyExists    somebody listens there
  //   kInvalidArgument  not an address
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Create(Options options,
                                                              Transport* transport);
  ~WorkerServer() override;  // as Close()

  // Where workers connect to.
  const std::string& address() const { return listener_->address(); }

  // Admits workers from now on. Once.
  //   kResourceExhausted  the system refuses its threads
  absl::Status Start(WorkerHandler* handler);
  // Waits until all workers have left, at most `timeout`. False: some have not. Operators may stay.
  bool WaitForWorkersToLeave(absl::Duration timeout);
  // Disconnects all, who are told `reason`; may be repeated. The handler's work has ended before: a
  // worker that is being served, its data waiting for room in a buffer, say, is waited for.
  void Close(absl::string_view reason);

  void Send(uint32_t worker, const CoordinatorMessage& message) override;

 private:
  struct Worker {
    std::shared_ptr<Session> session;
    absl::Status stuck;  // OK, or why nothing is sent to it any more
  };
  struct Peer {
    enum class State {
      kGreeted,   // until its Hello is here, or hello_timeout is over
      kServed,    // by its thread
      kLeaving,   // was refused, and is told so
      kFinished,  // its thread has ended, or its time to leave is over
    };

    std::shared_ptr<Session> session;
    State state = State::kGreeted;
    Deadline until = Deadline::Never();  // when kGreeted and kLeaving end
    std::thread thread;                  // of kServed and kFinished
  };
  // Peers whose first message is there. Outlives the server in the sessions' callbacks.
  class News;

  WorkerServer(Options options, std::unique_ptr<Listener> listener);

  // The threads that listen and greet.
  void Listen();
  void Greet();
  // Takes *connection unless it is one too many.
  absl::Status AddPeer(int64_t number, std::unique_ptr<Connection>* connection);
  // A connection that gets no session: closed without waiting for the peer.
  void Dismiss(std::unique_ptr<Connection> connection);
  // Reads the Hello of a peer, which is there, and admits or refuses it.
  void GreetPeer(int64_t number);
  absl::StatusOr<Hello> TakeHello(Session* session, uint32_t* worker);
  absl::Status CheckHello(const Hello& hello, absl::string_view identity) const;
  // Whether there is a thread for it from now on.
  absl::Status StartServing(int64_t number, uint32_t worker, const Hello& hello);
  void Refuse(int64_t number, const absl::Status& why);
  // Refuses those whose time is over, and forgets those that are gone.
  void Sweep();
  void Report(const std::string& what);

  // One admitted peer, on its thread.
  void Serve(int64_t number, uint32_t worker, const Hello& hello,
             const std::shared_ptr<Session>& session);
  absl::Status ServeAdmitted(uint32_t worker, const Hello& hello,
                             const std::shared_ptr<Session>& session);
  absl::Status SendWelcome(uint32_t worker, Session* session) const;
  // Of an admitted worker: whether it takes what is sent to it.
  absl::Status TakesMessages(uint32_t worker) const;
  absl::Status Answer(uint32_t worker, const Hello& hello, const WorkerMessage& message,
                      Session* session);

  const Options options_;
  const std::unique_ptr<Listener> listener_;
  WorkerHandler* handler_ = nullptr;
  const std::shared_ptr<News> news_;
  RateBound reports_;
  std::shared_ptr<SessionPump> pump_;  // its threads are there before the first peer
  std::thread listening_;
  std::thread greeting_;
  // Connections without a session, oldest first, until they are gone. The listening thread owns them.
  std::deque<std::pair<Deadline, std::unique_ptr<Connection>>> dismissed_;
  mutable Mutex mutex_;
  CondVar changed_;  // peers_, workers_
  std::map<int64_t, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Worker> workers_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_WORKER_SERVER_H_
