// //worker/testing:soak: kills workers of a parallel run for a minute, and reports.
//   bazel run //worker/testing:soak -- --seed=3

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/worker/program.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/soak.h"
#include "gflags/gflags.h"

DEFINE_int64(seed, 0, "of the run, and of moments and victims");
DEFINE_int32(kills, 20, "workers to kill");
DEFINE_double(seconds, 60, "in which they are killed");
DEFINE_string(config, ding::SoakOptions().config, "experiment config");

namespace ding {
namespace {

constexpr char kHelp[] = R"(Kills workers of a parallel run at random moments, and reports.

  soak [--seed=N] [--kills=N] [--seconds=S] [--config=FILE]

Exit code: 0 the run went on, converged afterwards and lost nothing, 1 it did not; its folder is left.
)";

int Main(int argc, char** argv) {
  InitProgram(&argc, &argv, kHelp);
  AdoptOrphans();
  char folder[] = "/tmp/soak_XXXXXX";
  if (mkdtemp(folder) == nullptr) return ReportFailure(ErrnoStatus(errno, "cannot make a folder"));
  SoakOptions options;
  options.config = FLAGS_config;
  options.folder = JoinPath(folder, "run");
  options.seed = static_cast<uint64_t>(FLAGS_seed);
  options.kills = FLAGS_kills;
  options.seconds = FLAGS_seconds;
  options.say = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  GrpcTransport transport;
  const absl::StatusOr<SoakReport> report = RunSoak(options, &transport);
  if (!report.ok()) return ReportFailure(report.status());
  std::printf("seed %lld: %lld kills, converged %.2f s after the last second of them\n",
              static_cast<long long>(FLAGS_seed), static_cast<long long>(report->kills),
              report->converged_after);
  std::printf("rows: %lld pushed, %lld acknowledged, %lld evicted\n",
              static_cast<long long>(report->rows_pushed),
              static_cast<long long>(report->rows_acknowledged),
              static_cast<long long>(report->rows_evicted));
  std::vector<double> recoveries = report->recoveries;
  std::sort(recoveries.begin(), recoveries.end());
  if (!recoveries.empty()) {
    std::printf(
        "a killed collector's successor collects after %.3f s (median of %zu), %.3f s at most\n",
        recoveries[recoveries.size() / 2], recoveries.size(), recoveries.back());
  }
  return RemoveRecursively(folder).ok() ? 0 : 1;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
