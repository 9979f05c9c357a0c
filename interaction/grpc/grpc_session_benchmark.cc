// Measures the control messages of a run: sessions over gRPC between threads of one process. The
// baselines are the same runs over a bare gRPC connection.
//
//   Pipelined/bytes        messages one way, as fast as the window lets them
//   Pipelined/threads:4    four sessions with one listener
//   RoundTrip              a question and its answer, one at a time
//   RoundTripP50, -P99     the time within which half of them, or 99 of 100, are back
//   PipelinedTls, RoundTripTls   the same with TLS, certificates of both sides and a token; the
//                                baselines
//                          are the runs without them
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/file.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/grpc/link_credentials.h"
#include "ding_worker/interaction/grpc/testing/test_credentials.h"
#include "ding_worker/interaction/testing/message_runs.h"

namespace ding {
namespace {

MessagePeers* Peers() {
  static auto* const peers = new MessagePeers(std::make_unique<GrpcTransport>(), "127.0.0.1:0");
  return peers;
}

GrpcTransportOptions Tls() {
  std::string folder = JoinPath(std::filesystem::temp_directory_path().string(), "tls_XXXXXX");
  DING_CHECK(mkdtemp(folder.data()) != nullptr) << folder;
  const TestAuthority authority(folder, "ca");
  authority.Issue("both");
  GrpcTransportOptions options;
  options.tls_ca = authority.path();
  options.tls_cert = JoinPath(folder, "both.pem");
  options.tls_key = JoinPath(folder, "both.key");
  options.token_file = JoinPath(folder, "tokens");
  options.role = "collector";
  WritePrivateFile(options.token_file, TestTokens());
  return options;
}

MessagePeers* TlsPeers() {
  static auto* const peers =
      new MessagePeers(std::make_unique<GrpcTransport>(Tls()), "127.0.0.1:0");
  return peers;
}

void Pipelined(benchmark::State& state) { RunPipelined(Peers()->ConnectInSession(), state); }
void PipelinedBaseline(benchmark::State& state) { RunPipelined(Peers()->Connect(), state); }
void RoundTrip(benchmark::State& state) { RunRoundTrips(Peers()->ConnectInSession(), state); }
void RoundTripBaseline(benchmark::State& state) { RunRoundTrips(Peers()->Connect(), state); }
void RoundTripP50(benchmark::State& state) {
  RunRoundTripQuantile(Peers()->ConnectInSession(), 0.5, state);
}
void RoundTripP99(benchmark::State& state) {
  RunRoundTripQuantile(Peers()->ConnectInSession(), 0.99, state);
  state.SetLabel("aim=5ms");
}

void PipelinedTls(benchmark::State& state) {
  RunPipelined(TlsPeers()->ConnectInSession(), state);
  // TLS may cost a quarter of the message rate, for messages of the size of control messages.
  if (state.range(0) == 64) state.SetLabel("aim=0.75");
}
void PipelinedTlsBaseline(benchmark::State& state) { Pipelined(state); }
void RoundTripTls(benchmark::State& state) { RunRoundTrips(TlsPeers()->ConnectInSession(), state); }
void RoundTripTlsBaseline(benchmark::State& state) { RoundTrip(state); }

void Streams(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(64)->Threads(1)->Threads(4)->UseRealTime();
}
// The number of iterations is fixed, because the measured time is a quantile and not their
// duration.
void Quantile(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseManualTime()->Iterations(5)->Arg(1000);
}

BENCHMARK(Pipelined)->Apply(Streams);
BENCHMARK(PipelinedBaseline)->Apply(Streams);
BENCHMARK(Pipelined)->Arg(16 << 10)->UseRealTime();
BENCHMARK(PipelinedBaseline)->Arg(16 << 10)->UseRealTime();
BENCHMARK(RoundTrip)->UseRealTime();
BENCHMARK(RoundTripBaseline)->UseRealTime();
BENCHMARK(PipelinedTls)->Apply(Streams);
BENCHMARK(PipelinedTlsBaseline)->Apply(Streams);
BENCHMARK(PipelinedTls)->Arg(16 << 10)->UseRealTime();
BENCHMARK(PipelinedTlsBaseline)->Arg(16 << 10)->UseRealTime();
BENCHMARK(RoundTripTls)->UseRealTime();
BENCHMARK(RoundTripTlsBaseline)->UseRealTime();
BENCHMARK(RoundTripP50)->Apply(Quantile);
BENCHMARK(RoundTripP99)->Apply(Quantile);

}  // namespace
}  // namespace ding
