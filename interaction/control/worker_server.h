// The side of the control plane that workers join. It listens for workers and greets them. It hands their
// messages to a WorkerHandler (a coordinator or a learner aggregator), and sends them the handler's messages.
//
//     Listener ──► a session per peer ──Hello──► a thread per admitted worker ──Handle──► WorkerHandler
//                                                                   ▲                          │
//                                                                   └────────── Send ──────────┘
//
// A worker is admitted under these conditions:
//
// - It has the same major version of the protocol.
// - If the transport requires a token, the worker's role is the role of the token that it has shown.
// - It was started with the run's config, or without a config.
// - check_hello and the handler accept it.
//
// Whatever a worker sends, the others go on. A worker that sends an invalid message is disconnected with the reason.
//
// A peer needs no thread and little memory before it is admitted. If the system refuses the thread for a peer, the
// server refuses the peer, and the others go on. All sessions together hold at most kServerSessionBytes
// (session_budget.h).
//
// Ownership: the transport and the handler must outlive the server.
// Threads:   thread-safe. The server has one thread that listens, one that greets, and one for each admitted
//            worker; Close() joins them.
#ifndef DING_WORKER_INTERACTION_CONTROL_WORKER_SERVER_H_
#define DING_WORKER_INTERACTION_CONTROL_WORKER_SERVER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/control/session_pump.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// Gives work to the workers that join. The threads of the server call it. If it throws, the worker is disconnected
// with the text of the exception.
class WorkerHandler {
 public:
  virtual ~WorkerHandler() = default;

  // Returns the number for a worker that wants to join, a number that no worker had before. An error, such as
  // kFailedPrecondition, refuses the worker; its message is the reason that the worker is told.
  virtual absl::StatusOr<uint32_t> Admit(const Hello& hello) = 0;
  // Tells of a worker that was admitted. `peer` names its address for people.
  virtual void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) = 0;
  // Tells of a worker that has left or was disconnected.
  virtual void WorkerLost(uint32_t worker, const absl::Status& why) = 0;
  // Handles a message of an admitted worker. One thread per worker calls it, so messages of a worker come one after
  // the other. An error means that the message is invalid: the worker is disconnected.
  virtual absl::Status Handle(uint32_t worker, const WorkerMessage& message) = 0;
  // Does what an operator requests.
  virtual OperatorReply Operate(const OperatorRequest& request) = 0;
  // The incarnation of the handler: 1 at first, one higher for each handler that continues the work of the one
  // before.
  virtual int32_t incarnation() const { return 1; }
  // The status of the run, for workers and operators that ask for it.
  virtual RunStatus status() const = 0;
};

// Lets a handler send messages to workers.
class WorkerSender {
 public:
  virtual ~WorkerSender() = default;

  // Queues a message behind those that were sent to this worker before. It may be called under the handler's lock,
  // because it does not wait for a worker and does not call the handler. It ignores a worker that is gone;
  // WorkerLost() tells of it. A worker that takes no messages is disconnected.
  virtual void Send(uint32_t worker, const CoordinatorMessage& message) = 0;
};

class WorkerServer : public WorkerSender {
 public:
  static constexpr int kMaxWorkers = 1000;
  static constexpr int kReportsPerSecond = 5;

  struct Options {
    // The largest number of connections at a time, at least 1. Further connections are closed.
    int max_workers = kMaxWorkers;
    absl::Duration hello_timeout = absl::Seconds(5);  // for the first message of a peer
    std::string address;  // where to listen; an address of the transport
    // The Welcome for admitted workers. The server fills in its version, worker number and incarnation.
    Welcome welcome;
    // The digest of the run's config. A worker that was started with a config must have the same digest. If it is
    // empty, only workers without a config are admitted.
    std::string config_digest;
    // The options of each session. The server sets its budget and its on_first_message.
    SessionOptions session;
    // Whether the worker with this Hello may join. May be empty.
    std::function<absl::Status(const Hello&)> check_hello;
    // Called with a sentence for the log about each peer that was refused, at most kReportsPerSecond times a second;
    // the next sentence then has the number of peers that were left out. May be empty; must not wait, throw or call
    // the server.
    std::function<void(const std::string&)> report;
    // Called for each worker that left or was lost, with the reason. May be empty; must not wait.
    std::function<void(const Hello&, const absl::Status&)> on_worker_lost;
  };

  // Creates a server that listens at options.address. Errors are those of Transport::Listen(), and kInvalidArgument
  // if options.welcome exceeds kMaxWelcomeBytes or another option is out of range.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Create(Options options,
                                                              Transport* transport);
  ~WorkerServer() override;  // as Close()

  // The address that workers connect to.
  const std::string& address() const { return listener_->address(); }

  // Admits workers from now on. Call it once.
  //   kResourceExhausted   the system refuses to start the server's threads
  //   kInvalidArgument     `handler` is null
  //   kFailedPrecondition  it was started before
  //   kCancelled           Close() was called
  absl::Status Start(WorkerHandler* handler);
  // Waits until all workers have left, but at most for `timeout`; operators may stay. Whether all have left.
  bool WaitForWorkersToLeave(absl::Duration timeout);
  // Disconnects all peers and tells them `reason`. Afterwards the handler is not called any more. May be called again;
  // a call waits for one of another thread. The handler and the callbacks must not call it. The handler's work must
  // have ended before, because this waits for calls of
  // Handle(), such as one whose data wait for room in a buffer.
  void Close(absl::string_view reason);

  void Send(uint32_t worker, const CoordinatorMessage& message) override;

 private:
  struct Worker {
    std::shared_ptr<Session> session;
    absl::Status stuck;  // OK, or the reason why nothing is sent to it any more
    Hello::Role role = Hello::OPERATOR;
    uint32_t place = 0;  // Welcome.place
  };
  struct Peer {
    enum class State {
      kGreeted,   // waits for its Hello, at most for hello_timeout
      kServed,    // its thread serves it
      kLeaving,   // was refused, and is being told the reason
      kFinished,  // its thread has ended
    };

    std::shared_ptr<Session> session;
    State state = State::kGreeted;
    Deadline until = Deadline::Never();  // when the states kGreeted and kLeaving end
    std::thread thread;                  // in the states kServed and kFinished
  };
  // A queue of the peers whose first message has arrived. The callbacks of the sessions share it, so it may outlive
  // the server.
  class News;

  WorkerServer(Options options, std::unique_ptr<Listener> listener);

  // The bodies of the threads that listen and greet.
  void Listen();
  void Greet();
  // Starts a session on *connection, unless there are too many peers; then *connection stays with the caller.
  absl::Status AddPeer(int64_t number, std::unique_ptr<Connection>* connection);
  // Closes a connection that gets no session, without waiting for the peer.
  void Dismiss(std::unique_ptr<Connection> connection);
  // Reads the Hello of a peer, which has arrived, and admits or refuses the peer.
  void GreetPeer(int64_t number);
  absl::StatusOr<Hello> TakeHello(Session* session, uint32_t* worker);
  absl::Status CheckHello(const Hello& hello, absl::string_view identity) const;
  // Starts the thread that serves the peer. An error if the system refuses it.
  absl::Status StartServing(int64_t number, uint32_t worker, const Hello& hello);
  void Refuse(int64_t number, const absl::Status& why);
  // Refuses the peers whose time for a Hello is over, and drops the peers that are gone.
  void Sweep();
  void Report(const std::string& what);

  // Serves one admitted peer, on its thread.
  void Serve(int64_t number, uint32_t worker, const Hello& hello,
             const std::shared_ptr<Session>& session);
  absl::Status ServeAdmitted(uint32_t worker, const Hello& hello,
                             const std::shared_ptr<Session>& session);
  // The place for a worker that has had `previous`, or none.
  uint32_t FreePlace(Hello::Role role, std::optional<uint32_t> previous) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SendWelcome(uint32_t worker, Session* session) const;
  // OK while an admitted worker takes its messages, else why it is stuck.
  absl::Status TakesMessages(uint32_t worker) const;
  // Handles one message of an admitted peer, and answers it if it is a question.
  absl::Status Answer(uint32_t worker, const Hello& hello, const WorkerMessage& message,
                      Session* session);

  const Options options_;
  const std::unique_ptr<Listener> listener_;
  WorkerHandler* handler_ = nullptr;
  const std::shared_ptr<News> news_;
  RateBound reports_;
  std::shared_ptr<SessionPump> pump_;  // its threads start before the first peer connects
  std::thread listening_;
  std::thread greeting_;
  // The dismissed connections, oldest first, until they are closed. Only the listening thread uses them.
  std::deque<std::pair<Deadline, std::unique_ptr<Connection>>> dismissed_;
  // Held by Close(), which joins the threads. mutex_ may be taken while it is held.
  Mutex close_mutex_;
  mutable Mutex mutex_;
  CondVar changed_;  // signalled when peers_ or workers_ has changed
  std::map<int64_t, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Worker> workers_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_WORKER_SERVER_H_
