// The side of the control plane that workers join. It listens for workers and greets them. It hands
// their messages to a WorkerHandler (a coordinator or a learner aggregator), and sends them the
// handler's messages.
//
//     Listener ──► a session per peer ──Hello──► Admit, WorkerJoined ──► Handle, one message at a time ──► WorkerLost
//                         ▲                                                   │
//                         └──────────────────── Send ─────────────────────────┘
//
// A worker is admitted under these conditions:
//
// - It has the same major version of the protocol.
// - If the transport requires a token, the worker's role is the role of the token that it has
//   shown.
// - It was started with the run's config, or without a config.
// - check_hello and the handler accept it.
//
// A worker that sends an invalid message is disconnected with the reason; the others go on.
//
// The server has no thread per worker. It takes a worker's next message from the session when the
// handler is done with the previous one. Until then messages wait in the session, and when the
// session's window is full, the worker waits. All sessions together hold at most
// kServerSessionBytes (SessionBudget).
//
// Ownership: the transport and the handler must outlive the server.
// Threads:   thread-safe. One thread accepts and greets; Close() joins it. The threads of the
//            sessions (session_pump.h), and threads that call `done`, take messages.
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
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/control/session_pump.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/transport/rate_bound.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// The most bytes that all sessions of a server hold together.
inline constexpr int64_t kServerSessionBytes = int64_t{256} << 20;

// Decides about workers and handles their messages. If a function throws, the worker is
// disconnected with the text of the exception. The functions must not wait, except WorkerJoined().
// The calls for a worker come one after the other.
class WorkerHandler {
 public:
  using Admitted = std::function<void(absl::StatusOr<uint32_t>)>;
  using Done = std::function<void(const absl::Status&)>;

  virtual ~WorkerHandler() = default;

  // Calls `admitted` once, now or later, on any thread, with the number of a worker that wants to
  // join; no worker had this number before. An error, such as kFailedPrecondition, refuses the
  // worker, which is told the error's message.
  virtual void Admit(const Hello& hello, Admitted admitted) = 0;
  // Called for each admitted worker, but not for operators. `peer` is its address, for people.
  virtual void WorkerJoined(uint32_t worker, const Hello& hello, const std::string& peer) = 0;
  // Called for each worker that has left or was disconnected. Handle() may still be working on its
  // last message.
  virtual void WorkerLost(uint32_t worker, const absl::Status& why) = 0;
  // Handles a message of an admitted worker, or a StatusRequest or an OperatorRequest of an
  // operator. Calls `done` once, now or later, on any thread, but not after the server is
  // destroyed. The worker's next message comes after that. An error means that the message is
  // invalid: the worker is disconnected.
  virtual void Handle(uint32_t worker, WorkerMessage message, Done done) = 0;
  // The incarnation of the handler: 1 at first, one higher for each successor that continues its
  // work.
  virtual int32_t incarnation() const { return 1; }
};

// Lets a handler send messages to workers.
class WorkerSender {
 public:
  virtual ~WorkerSender() = default;

  // Queues a message after the earlier messages to this worker. It may be called under the
  // handler's lock, because it neither waits for a worker nor calls the handler. It ignores a
  // worker that is gone (WorkerLost()). A worker that takes no messages is disconnected.
  virtual void Send(uint32_t worker, const CoordinatorMessage& message) = 0;
  // The time after which the worker is lost if nothing is heard of it; nullopt: not known, as of a
  // worker that is gone. May be called as Send().
  virtual std::optional<absl::Duration> LeaseLeft(uint32_t /*worker*/) { return std::nullopt; }
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
    // The Welcome for admitted workers. The server fills in its version, worker number and
    // incarnation.
    Welcome welcome;
    // The digest of the run's config. A worker that was started with a config must have the same
    // digest. If it is empty, only workers without a config are admitted.
    std::string config_digest;
    // The options of each session. The server sets its budget.
    SessionOptions session;
    // Whether the worker with this Hello may join. May be empty.
    std::function<absl::Status(const Hello&)> check_hello;
    // Called with a line for the log about each refused peer, at most kReportsPerSecond times a
    // second; the next line counts the omitted peers. May be empty; must not wait, throw or call
    // the server.
    std::function<void(const std::string&)> report;
    // Called for each worker that left or was lost, with the reason. May be empty; must not wait.
    std::function<void(const Hello&, const absl::Status&)> on_worker_lost;
  };

  // Creates a server that listens at options.address. Errors: as Transport::Listen(), and
  // kInvalidArgument if options.welcome exceeds kMaxWelcomeBytes or another option is out of range.
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
  // Waits up to `timeout` until all workers have left; operators may stay. Returns whether all have
  // left.
  bool WaitForWorkersToLeave(absl::Duration timeout);
  // Disconnects all peers and tells them `reason`. Afterwards the handler is not called any more,
  // and `done` has no effect. May be called again, and by several threads, which wait for each
  // other. The handler and the callbacks must not call it.
  void Close(absl::string_view reason);

  void Send(uint32_t worker, const CoordinatorMessage& message) override;
  std::optional<absl::Duration> LeaseLeft(uint32_t worker) override;

 private:
  struct Peer {
    enum class State {
      kGreeted,   // waits for its Hello, at most for hello_timeout
      kAdmitted,  // the handler decides, or has decided, whether it may join
      kServed,    // its messages go to the handler
      kLeaving,   // is being told why it must leave
    };

    int64_t number = 0;
    std::shared_ptr<Session> session;
    State state = State::kGreeted;
    Deadline until = Deadline::Never();              // when the states kGreeted and kLeaving end
    Hello hello;                                     // from kAdmitted on
    std::optional<absl::StatusOr<uint32_t>> worker;  // the answer of Admit()
    uint32_t place = 0;                              // Welcome.place
    absl::Status why;                                // OK, or why it must leave
    bool handling = false;                           // the handler has its Hello or a message
    bool advancing = false;  // a thread is in Advance() for it; then it is not removed
    bool again = false;      // whether that thread must look again
  };

  WorkerServer(Options options, std::unique_ptr<Listener> listener);

  // The body of the server's thread: accepts and greets peers, and removes those that are gone.
  void Run();
  void Accept();
  // Starts a session on *connection, unless there are too many peers; then *connection stays with
  // the caller.
  absl::Status AddPeer(std::unique_ptr<Connection>* connection);
  // Refuses the peers whose time for a Hello is over, and drops the peers that are gone.
  void Sweep();
  void Report(const std::string& what);

  // Advances a peer as far as possible: takes its Hello, welcomes it, passes its messages to the
  // handler one after the other, or lets it leave. Releases the mutex meanwhile. If another thread
  // is already advancing this peer, tells that thread to check again. Only the server's thread
  // advances a peer that is not served yet, because WorkerJoined() may wait.
  void Advance(Peer* peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the server's thread advance the peer.
  void Enqueue(Peer* peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The parts of Advance(). An error if the peer must leave.
  absl::Status TakeNext(Peer* peer) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status TakeHello(Peer* peer, const Hello& hello) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckHello(const Hello& hello, absl::string_view identity) const;
  absl::Status Welcome(Peer* peer) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Handle(Peer* peer, WorkerMessage message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Tells the handler and the log why a peer must leave.
  void TellLost(const Peer& peer, const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Null if the peer is gone.
  Peer* Find(int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The place for a worker that has had `previous`, or none.
  uint32_t FreePlace(Hello::Role role, std::optional<uint32_t> previous) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWorkers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::unique_ptr<Listener> listener_;
  WorkerHandler* handler_ = nullptr;
  RateBound reports_;
  std::shared_ptr<SessionPump> pump_;  // its threads start before the first peer connects
  std::thread thread_;
  // The dismissed connections, oldest first, until they are closed. Only the server's thread uses
  // them.
  std::deque<std::pair<Deadline, std::unique_ptr<Connection>>> dismissed_;
  // Held by Close(), which joins the thread. mutex_ may be taken while it is held.
  Mutex close_mutex_;
  mutable Mutex mutex_;
  CondVar changed_;  // a worker is gone, or a thread has left Advance() while the server closes
  CondVar work_;     // the server's thread waits for it
  std::map<int64_t, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, Peer*> served_ ABSL_GUARDED_BY(mutex_);  // by worker or operator
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<int64_t> queue_ ABSL_GUARDED_BY(mutex_);  // the server's thread must advance them
  bool accepts_ ABSL_GUARDED_BY(mutex_) = true;  // whether a connection may wait to be accepted
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_CONTROL_WORKER_SERVER_H_
