// What a session costs beside the bare connection that it stands on, between two threads.
//
//   Pipelined/bytes        messages one way, as fast as the window lets them
//   PipelinedFloor/bytes   the same over the connection
//   RoundTrip              a question and its answer, one at a time
//   RoundTripFloor         the same over the connection
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/interaction/in_process_transport.h"
#include "ding_worker/interaction/session.h"
#include "ding_worker/interaction/transport.h"

namespace ding {
namespace {

constexpr absl::Duration kLong = absl::Seconds(60);

template <typename End>
struct Ends {
  std::unique_ptr<End> here;
  std::unique_ptr<End> there;
};

Ends<Connection> Connected() {
  InProcessTransport transport;
  const auto listener = transport.Listen("there").value();
  Ends<Connection> ends;
  ends.here = transport.Connect("there", kLong).value();
  ends.there = listener->Accept(kLong).value();
  return ends;
}

Ends<Session> InSession() {
  Ends<Connection> ends = Connected();
  return {Session::Start(std::move(ends.here), {}), Session::Start(std::move(ends.there), {})};
}

void Close(Connection* connection) { connection->Close(); }
void Close(Session* session) { session->Close("measured"); }

template <typename End>
void RunPipelined(Ends<End> ends, benchmark::State& state) {
  std::thread receiver([&ends] {
    while (ends.there->Receive(kLong).ok()) {
    }
  });
  const std::string message(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) DING_CHECK(ends.here->Send(message, kLong).ok());
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
  Close(ends.here.get());
  receiver.join();
}

template <typename End>
void RunRoundTrips(Ends<End> ends, benchmark::State& state) {
  std::thread answering([&ends] {
    while (true) {
      auto question = ends.there->Receive(kLong);
      if (!question.ok() || !ends.there->Send(*std::move(question), kLong).ok()) return;
    }
  });
  for (auto _ : state) {
    DING_CHECK(ends.here->Send("question", kLong).ok());
    DING_CHECK(ends.here->Receive(kLong).ok());
  }
  state.SetItemsProcessed(state.iterations());
  Close(ends.here.get());
  answering.join();
}

void Pipelined(benchmark::State& state) { RunPipelined(InSession(), state); }
void PipelinedFloor(benchmark::State& state) { RunPipelined(Connected(), state); }
void RoundTrip(benchmark::State& state) { RunRoundTrips(InSession(), state); }
void RoundTripFloor(benchmark::State& state) { RunRoundTrips(Connected(), state); }

BENCHMARK(Pipelined)->Arg(64)->Arg(16 << 10)->UseRealTime();
BENCHMARK(PipelinedFloor)->Arg(64)->Arg(16 << 10)->UseRealTime();
BENCHMARK(RoundTrip)->UseRealTime();
BENCHMARK(RoundTripFloor)->UseRealTime();

}  // namespace
}  // namespace ding
