// The measurements that all benchmarks of connections and sessions make between two ends, so that
// their figures can be compared.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_INTERACTION_TESTING_MESSAGE_RUNS_H_
#define DING_WORKER_INTERACTION_TESTING_MESSAGE_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/interaction/control/session.h"
#include "ding_worker/interaction/transport/transport.h"

namespace ding {

// The timeout of operations that do not take long.
inline constexpr absl::Duration kMessageRunPatience = absl::Seconds(60);

// Both ends of a Connection or a Session.
template <typename End>
struct MessageEnds {
  std::unique_ptr<End> here;
  std::unique_ptr<End> there;
};

// Makes connections to one listener. Thread-safe.
class MessagePeers {
 public:
  MessagePeers(std::unique_ptr<Transport> transport, const std::string& address)
      : transport_(std::move(transport)), listener_(transport_->Listen(address).value()) {}

  MessageEnds<Connection> Connect() {
    MutexLock lock(&mutex_);
    MessageEnds<Connection> ends;
    ends.here = transport_->Connect(listener_->address(), kMessageRunPatience).value();
    ends.there = listener_->Accept(kMessageRunPatience).value();
    return ends;
  }
  MessageEnds<Session> ConnectInSession() {
    MessageEnds<Connection> ends = Connect();
    MessageEnds<Session> sessions = {Session::Start(std::move(ends.here), {}).value(),
                                     Session::Start(std::move(ends.there), {}).value()};
    sessions.here->Admit();
    sessions.there->Admit();
    return sessions;
  }

 private:
  Mutex mutex_;
  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<Listener> listener_;
};

inline void CloseMessageEnd(Connection* connection) { connection->Close(); }
inline void CloseMessageEnd(Session* session) { session->Close("measured"); }

// Sends messages of state.range(0) bytes one way, as fast as the other side receives them.
template <typename End>
void RunPipelined(MessageEnds<End> ends, benchmark::State& state) {
  std::thread receiver([&ends] {
    while (ends.there->Receive(kMessageRunPatience).ok()) {
    }
  });
  const std::string message(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) DING_CHECK(ends.here->Send(message, kMessageRunPatience).ok());
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
  CloseMessageEnd(ends.here.get());
  receiver.join();
}

// Answers every question until the asking side is closed.
template <typename End>
void AnswerQuestions(End* end) {
  while (true) {
    absl::StatusOr<std::string> question = end->Receive(kMessageRunPatience);
    if (!question.ok() || !end->Send(*std::move(question), kMessageRunPatience).ok()) return;
  }
}

template <typename End>
void AskAndWait(End* end) {
  DING_CHECK(end->Send("question", kMessageRunPatience).ok());
  DING_CHECK(end->Receive(kMessageRunPatience).ok());
}

// Sends a question and waits for its answer, one at a time.
template <typename End>
void RunRoundTrips(MessageEnds<End> ends, benchmark::State& state) {
  std::thread answering([&ends] { AnswerQuestions(ends.there.get()); });
  for (auto _ : state) AskAndWait(ends.here.get());
  state.SetItemsProcessed(state.iterations());
  CloseMessageEnd(ends.here.get());
  answering.join();
}

// Does the same, but an iteration makes state.range(0) round trips and counts with the given
// quantile of their times.
template <typename End>
void RunRoundTripQuantile(MessageEnds<End> ends, double quantile, benchmark::State& state) {
  std::thread answering([&ends] { AnswerQuestions(ends.there.get()); });
  std::vector<double> seconds(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    for (double& value : seconds) {
      const Timer timer(Clock::Real());
      AskAndWait(ends.here.get());
      value = timer.Seconds();
    }
    std::sort(seconds.begin(), seconds.end());
    state.SetIterationTime(seconds[static_cast<size_t>(quantile * (seconds.size() - 1))]);
  }
  CloseMessageEnd(ends.here.get());
  answering.join();
}

}  // namespace ding

#endif  // DING_WORKER_INTERACTION_TESTING_MESSAGE_RUNS_H_
