// //worker:ctl: asks a parallel run how it is.

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/worker/ask_status.h"
#include "ding_worker/worker/link_flags.h"
#include "ding_worker/worker/program.h"
#include "ding_worker/worker/status_text.h"
#include "gflags/gflags.h"

DEFINE_string(coordinator, "", "host:port of the coordinator");
DEFINE_double(timeout, 5, "seconds to wait for the coordinator");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Asks a parallel run how it is.

  ctl --coordinator=HOST:PORT status    its progress, workers, buffers, and who waits for what

  --coordinator=HOST:PORT   as the run prints it at its start
  --timeout=SECONDS         to wait for the coordinator (default: 5)

{link flags}

  --help                    prints this page, and exits

Exit code: 0 it has answered, 1 an error.
)";

absl::Status PrintStatus() {
  if (FLAGS_coordinator.empty()) {
    return absl::InvalidArgumentError("--coordinator=HOST:PORT is missing; see --help");
  }
  GrpcTransport transport(LinkOptions("operator"));
  DING_ASSIGN_OR_RETURN(const RunStatus status,
                        AskStatus(FLAGS_coordinator, absl::StrCat("ctl-", getpid()),
                                  absl::Seconds(FLAGS_timeout), &transport));
  std::printf("%s", FormatRunStatus(status).c_str());
  return absl::OkStatus();
}

// Takes the command, which stands anywhere among the flags.
std::string TakeCommand(int* argc, char** argv) {
  std::string command;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    if (argv[i][0] != '-' && command.empty()) {
      command = argv[i];
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  argv[kept] = nullptr;
  return command;
}

int Main(int argc, char** argv) {
  const std::string command = TakeCommand(&argc, argv);
  InitProgram(&argc, &argv, absl::StrReplaceAll(kHelp, {{"{link flags}\n", kLinkFlagsHelp}}));
  if (command != "status") {
    return ReportFailure(absl::InvalidArgumentError(
        absl::StrCat("command '", command, "' is not known, expected: status; see --help")));
  }
  const absl::Status status = PrintStatus();
  return status.ok() ? 0 : ReportFailure(status);
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
