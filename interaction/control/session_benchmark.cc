// Measures the cost of a session over the cost of its bare connection, between two threads.
//
//   Pipelined/bytes        messages in one direction, as fast as the window allows
//   PipelinedBaseline/bytes   the same over the bare connection
//   RoundTrip              a question and its answer, one at a time
//   RoundTripBaseline         the same over the bare connection
#include <memory>

#include "benchmark/benchmark.h"
#include "ding_worker/interaction/testing/message_runs.h"
#include "ding_worker/interaction/transport/in_process_transport.h"

namespace ding {
namespace {

MessagePeers* Peers() {
  static auto* const peers = new MessagePeers(std::make_unique<InProcessTransport>(), "there");
  return peers;
}

void Pipelined(benchmark::State& state) { RunPipelined(Peers()->ConnectInSession(), state); }
void PipelinedBaseline(benchmark::State& state) { RunPipelined(Peers()->Connect(), state); }
void RoundTrip(benchmark::State& state) { RunRoundTrips(Peers()->ConnectInSession(), state); }
void RoundTripBaseline(benchmark::State& state) { RunRoundTrips(Peers()->Connect(), state); }

BENCHMARK(Pipelined)->Arg(64)->Arg(16 << 10)->UseRealTime();
BENCHMARK(PipelinedBaseline)->Arg(64)->Arg(16 << 10)->UseRealTime();
BENCHMARK(RoundTrip)->UseRealTime();
BENCHMARK(RoundTripBaseline)->UseRealTime();

}  // namespace
}  // namespace ding
