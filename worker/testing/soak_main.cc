// //worker/testing:soak: kills processes of a parallel run for a minute, and reports.
//   bazel run //worker/testing:soak -- --scenario=redis --seed=3

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "ding_worker/worker/testing/child_program.h"
#include "ding_worker/worker/testing/soak.h"
#include "gflags/gflags.h"

DEFINE_string(scenario, "workers", "victims: workers, redis or group");
DEFINE_int64(seed, 0, "of the run, and of moments and victims");
DEFINE_int32(kills, 20, "processes to kill");
DEFINE_double(seconds, 60, "in which they are killed");
DEFINE_string(json, "", "file for the report; empty: none");
DEFINE_bool(relative_folder, false,
            "the run's folder is named by its path from the current folder");

namespace ding {
namespace {

constexpr char kHelp[] = R"(Kills processes of a parallel run at random moments, and reports.

  soak [--scenario=NAME] [--seed=N] [--kills=N] [--seconds=S] [--json=FILE] [--relative_folder]

Scenarios:
  workers  a collector, one that evaluates, the learner, the coordinator
  redis    the same, and the Redis server in which all data and the coordinator's journal are
  group    a collector, one that evaluates, one of two learners that learn together, their aggregator,
           the coordinator, Redis
Exit code: 0 the run went on, converged afterwards, lost nothing and left nothing; 1 it did not: its folder is left.
)";

absl::Status SetScenario(const std::string& name, SoakOptions* options) {
  if (name == "workers") return absl::OkStatus();
  if (name == "redis") {
    options->victims.push_back(Victim::kRedis);
    return absl::OkStatus();
  }
  if (name == "group") {
    options->program = "worker/parallel_torch";
    options->arguments = {"--set=policy.learn.learner_num=2"};
    options->victims = {Victim::kCollector,  Victim::kEvaluator,   Victim::kGroupLearner,
                        Victim::kAggregator, Victim::kCoordinator, Victim::kRedis};
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--scenario=", name, ": expected workers, redis or group"));
}

std::string ToJson(const SoakReport& report) {
  const auto kill = [](std::string* out, const SoakKill& kill) {
    absl::StrAppend(out, "{\"victim\": \"", NameOf(kill.victim),
                    "\", \"back_seconds\": ", kill.back_seconds, "}");
  };
  return absl::StrCat("{\"kills\": [", absl::StrJoin(report.kills, ", ", kill),
                      "], \"rows_pushed\": ", report.rows_pushed,
                      ", \"rows_acknowledged\": ", report.rows_acknowledged,
                      ", \"rows_evicted\": ", report.rows_evicted,
                      ", \"converged_after\": ", report.converged_after, "}\n");
}

absl::StatusOr<SoakReport> Run(const std::string& folder) {
  SoakOptions options;
  DING_RETURN_IF_ERROR(SetScenario(FLAGS_scenario, &options));
  std::unique_ptr<RedisServer> redis;
  if (absl::c_linear_search(options.victims, Victim::kRedis)) {
    RedisServer::Options server;
    server.append_fsync = "no";  // Acknowledged writes survive the death of the process.
    DING_ASSIGN_OR_RETURN(redis, RedisServer::Start(server));
  }
  options.redis = redis.get();
  options.folder = JoinPath(folder, "run");
  options.relative_folder = FLAGS_relative_folder;
  options.seed = static_cast<uint64_t>(FLAGS_seed);
  options.kills = FLAGS_kills;
  options.seconds = FLAGS_seconds;
  options.say = [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  };
  GrpcTransport transport;
  return RunSoak(options, &transport);
}

int Main(int argc, char** argv) {
  InitProgram(&argc, &argv, kHelp);
  AdoptOrphans();
  char folder[] = "/tmp/soak_XXXXXX";
  if (mkdtemp(folder) == nullptr) return ReportFailure(ErrnoStatus(errno, "cannot make a folder"));
  const absl::StatusOr<SoakReport> report = Run(folder);
  if (!report.ok()) return ReportFailure(report.status());
  std::printf(
      "seed %lld: %zu kills, converged %.2f s after the last second of them; rows: %lld pushed, "
      "%lld acknowledged, %lld evicted, none lost\n",
      static_cast<long long>(FLAGS_seed), report->kills.size(), report->converged_after,
      static_cast<long long>(report->rows_pushed),
      static_cast<long long>(report->rows_acknowledged),
      static_cast<long long>(report->rows_evicted));
  if (!FLAGS_json.empty()) {
    // The program stays in Bazel's folder, since the programs that it starts are there.
    const absl::Status written =
        WriteFileAtomically(JoinPath(CallersFolder(), FLAGS_json), ToJson(*report));
    if (!written.ok()) return ReportFailure(written);
  }
  return RemoveRecursively(folder).ok() ? 0 : 1;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
