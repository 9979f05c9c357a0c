// What control messages of a run cost: sessions over gRPC, between threads of one process. Floors: the
// bare gRPC connection.
//
//   Pipelined/bytes        messages one way, as fast as the window lets them
//   Pipelined/threads:4    four sessions with one listener
//   RoundTrip              a question and its answer, one at a time
//   RoundTripP50, -P99     the time within which half of them, or 99 of 100, are back
#include <memory>

#include "benchmark/benchmark.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/testing/message_runs.h"

namespace ding {
namespace {

MessagePeers* Peers() {
  static auto* const peers = new MessagePeers(std::make_unique<GrpcTransport>(), "127.0.0.1:0");
  return peers;
}

void Pipelined(benchmark::State& state) { RunPipelined(Peers()->ConnectInSession(), state); }
void PipelinedFloor(benchmark::State& state) { RunPipelined(Peers()->Connect(), state); }
void RoundTrip(benchmark::State& state) { RunRoundTrips(Peers()->ConnectInSession(), state); }
void RoundTripFloor(benchmark::State& state) { RunRoundTrips(Peers()->Connect(), state); }
void RoundTripP50(benchmark::State& state) {
  RunRoundTripQuantile(Peers()->ConnectInSession(), 0.5, state);
}
void RoundTripP99(benchmark::State& state) {
  RunRoundTripQuantile(Peers()->ConnectInSession(), 0.99, state);
  state.SetLabel("reach=5ms");
}

void Streams(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(64)->Threads(1)->Threads(4)->UseRealTime();
}
// As many as say something: what is measured is not the time that they take.
void Quantile(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Iterations(5)->Arg(1000);
}

BENCHMARK(Pipelined)->Apply(Streams);
BENCHMARK(PipelinedFloor)->Apply(Streams);
BENCHMARK(Pipelined)->Arg(16 << 10)->UseRealTime();
BENCHMARK(PipelinedFloor)->Arg(16 << 10)->UseRealTime();
BENCHMARK(RoundTrip)->UseRealTime();
BENCHMARK(RoundTripFloor)->UseRealTime();
BENCHMARK(RoundTripP50)->Apply(Quantile);
BENCHMARK(RoundTripP99)->Apply(Quantile);

}  // namespace
}  // namespace ding
