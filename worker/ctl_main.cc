// //worker:ctl: shows the status of a parallel run and sends it commands; brings its files from its
// store; inspects the journal of a run that has ended.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/coordinator/journal/journal_check.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/metrics/terminal.h"
#include "ding_worker/worker/coordination/run_files.h"
#include "ding_worker/worker/coordination/run_status_text.h"
#include "ding_worker/worker/processes/ask_operator.h"
#include "ding_worker/worker/program/interrupt.h"
#include "ding_worker/worker/program/link_flags.h"
#include "ding_worker/worker/program/program.h"
#include "ding_worker/worker/run_folder/paths.h"
#include "gflags/gflags.h"

DEFINE_string(coordinator, "", "host:port of the coordinator");
DEFINE_double(timeout, 5, "seconds to wait for the coordinator");
DEFINE_bool(watch, false, "status: shows it anew every second");
DEFINE_bool(json, false, "status: as JSON");
DEFINE_bool(follow, false, "fetch: until the run has ended");
DEFINE_bool(remove, false, "fetch: removes the files of a run that has ended from the store");
DEFINE_bool(skip_damage, true, "journal repair: what it does anyway, for scripts of version 0.1.0");

namespace ding {
namespace {

constexpr char kHelp[] =
    R"(Asks a parallel run how it is, and tells it what is to change.

  ctl --coordinator=HOST:PORT COMMAND [ARGUMENT]
  ctl fetch RUN FOLDER
  ctl journal check|repair FILE

  status          progress, workers, buffers, and who waits for what
                  --watch: drawn anew every second, until the run is over or Ctrl-C
                  --json: as an object in one line (docs/reference/parallel.md), with --watch a line a second
  inspect NAME    all that is known of one worker or one buffer
  grow N          N collectors more, up to system.coordinator.max_collectors
  shrink N        N collectors fewer: the surplus is drained, idle ones and the newest first
  drain NAME      this collector finishes its task, gets no other, and leaves; one fewer is wanted
  stop            ends the run, as when its budget is used up: checkpoints and result are written

  ctl fetch RUN FOLDER
                  brings checkpoints, logs, videos, config and result of a run with
                  system.run_files: STORE from its store to a folder, as a run without it has one.
                  RUN is the URL that the run prints at its start: redis:HOST:PORT/PREFIX/RUN
                  --follow: goes on until the run has ended, or Ctrl-C
                  --remove: then removes them from the store

  ctl journal check FILE
                  what is left of the journal of a run that does not run, and what --resume finds in
                  it; FILE is coordinator/journal of the run's folder
  ctl journal repair FILE
                  makes a journal of all records that are whole, and keeps the old file beside it as
                  FILE.damaged. What a crash leaves needs no repair
                  (A journal that lies in Redis is checked when it is read.)

  --coordinator=HOST:PORT   as the run prints it at its start, and writes to coordinator/address
  --timeout=SECONDS         to wait for the coordinator (default: 5)

{link flags}

  --help                    prints this page, and exits

A run that was started with --role=all starts and ends the processes by itself. If you start them by
other means, `ctl status` says how many collectors are wanted.

Exit code: 0 it is done, 1 an error: the run says why not. journal check: 0 the journal is whole, 1 it
is damaged, 2 there is none that can be read, or none of this version.
)";

constexpr absl::string_view kJournal = "journal";
constexpr absl::string_view kFetch = "fetch";
// Exit code of `journal check` if there is no journal.
constexpr int kNoJournal = 2;
// Between two requests of `status --watch`.
constexpr absl::Duration kWatchPeriod = absl::Seconds(1);

absl::StatusOr<OperatorRequest> MakeRequest(const std::vector<std::string>& words) {
  const absl::StatusOr<OperatorRequest> request = ParseOperatorCommand(words);
  if (!request.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.status().message(), "; see --help, also for fetch and journal"));
  }
  if ((FLAGS_watch || FLAGS_json) && words[0] != "status") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", words[0], "': --watch and --json are for the command 'status'"));
  }
  return request;
}

// Shows the status of the run: as JSON, over the one before, or below it.
void PrintStatus(const RunStatus& status) {
  constexpr char kToTopLeft[] = "\x1b[H";
  constexpr char kClearsBehind[] = "\x1b[K\n";
  constexpr char kClearsBelow[] = "\x1b[J";
  if (FLAGS_json) {
    std::printf("%s\n", RunStatusToJson(status).c_str());
    std::fflush(stdout);
    return;
  }
  std::string text = FormatRunStatus(status);
  if (isatty(STDOUT_FILENO) == 1) text = FoldLines(text, TerminalWidth(STDOUT_FILENO));
  if (FLAGS_watch && CanDrawOver(STDOUT_FILENO)) {
    // The last line stays free: a newline in it would move all others up.
    text = KeepFirstLines(text, TerminalHeight(STDOUT_FILENO) - 1);
    const std::string lines = absl::StrReplaceAll(text, {{"\n", kClearsBehind}});
    std::printf("%s%s%s", kToTopLeft, lines.c_str(), kClearsBelow);
  } else {
    std::printf("%s%s", text.c_str(), FLAGS_watch ? "\n" : "");
  }
  std::fflush(stdout);
}

void PrintReply(const OperatorRequest& request, const OperatorReply& reply) {
  if (!request.has_inspect()) {
    std::printf("%s\n", reply.message().c_str());
  } else if (request.inspect().empty()) {
    PrintStatus(reply.status());
  } else {
    for (const WorkerStatus& worker : reply.status().worker()) {
      std::printf("%s", worker.DebugString().c_str());
    }
    for (const BufferStatus& buffer : reply.status().buffer()) {
      std::printf("%s", buffer.DebugString().c_str());
    }
  }
}

absl::Status RunCommand(const std::vector<std::string>& words) {
  DING_ASSIGN_OR_RETURN(const OperatorRequest request, MakeRequest(words));
  if (FLAGS_coordinator.empty()) {
    return absl::InvalidArgumentError("--coordinator=HOST:PORT is missing; see --help");
  }
  // gRPC aborts the program when it cannot start a thread.
  DING_RETURN_IF_ERROR(CheckThreads(GrpcTransport::kThreads));
  DING_RETURN_IF_ERROR(EnterCallersFolder());
  DING_RETURN_IF_ERROR(MakeLinkFlagsAbsolute());
  GrpcTransport transport(LinkOptions("operator"));
  const auto ask = [&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(const OperatorReply reply,
                          AskOperator(FLAGS_coordinator, absl::StrCat("ctl-", getpid()), request,
                                      absl::Seconds(FLAGS_timeout), &transport));
    PrintReply(request, reply);
    return absl::OkStatus();
  };
  DING_RETURN_IF_ERROR(ask());
  if (!FLAGS_watch) return absl::OkStatus();
  absl::Status status;
  while (status.ok()) {
    absl::SleepFor(kWatchPeriod);
    status = ask();
  }
  WriteMessage(STDERR_FILENO, absl::StrCat("the run does not answer any more: ", status.message()));
  return absl::OkStatus();
}

// Runs a command that needs no coordinator. Returns the exit code.
int RunJournalCommand(const std::vector<std::string>& words) {
  const bool check = words.size() == 3 && words[1] == "check";
  if (!check && (words.size() != 3 || words[1] != "repair")) {
    return ReportFailure(absl::InvalidArgumentError(
        absl::StrCat("'", absl::StrJoin(words, " "),
                     "': expected 'journal check FILE' or 'journal repair FILE'; see --help")));
  }
  if (!check) {
    const absl::StatusOr<std::string> done = RepairJournal(words[2]);
    if (!done.ok()) return ReportFailure(done.status());
    std::printf("%s", done->c_str());
    return 0;
  }
  const absl::StatusOr<JournalReport> report = CheckJournal(words[2]);
  if (!report.ok()) {
    ReportFailure(report.status());
    return kNoJournal;
  }
  std::printf("%s", report->ToString().c_str());
  return report->whole() ? 0 : 1;
}

// Brings the files of a run to a folder. Returns the exit code.
int RunFetchCommand(const std::vector<std::string>& words) {
  const auto fetch = [&]() -> absl::Status {
    if (words.size() != 3) {
      return absl::InvalidArgumentError(absl::StrCat("'", absl::StrJoin(words, " "),
                                                     "': expected 'fetch RUN FOLDER'; see --help"));
    }
    DING_RETURN_IF_ERROR(EnterCallersFolder());
    FetchRunOptions options;
    DING_ASSIGN_OR_RETURN(options.store_url, AbsoluteStoreUrl(words[1]));
    DING_ASSIGN_OR_RETURN(options.folder, AbsolutePath(words[2]));
    options.follow = FLAGS_follow;
    options.remove = FLAGS_remove;
    options.interrupted = IsInterrupted;
    if (FLAGS_follow) CatchInterrupts();
    return FetchRun(options);
  };
  const absl::Status fetched = fetch();
  return fetched.ok() ? 0 : ReportFailure(fetched);
}

// Whether the value of this flag is the next argument, as in `--coordinator HOST:PORT`.
bool TakesNextArgument(absl::string_view argument) {
  if (absl::StrContains(argument, '=')) return false;
  absl::ConsumePrefix(&argument, "-");
  absl::ConsumePrefix(&argument, "-");
  google::CommandLineFlagInfo flag;
  return google::GetCommandLineFlagInfo(std::string(argument).c_str(), &flag) &&
         flag.type != "bool";
}

// Removes the command and its arguments, which may stand anywhere among the flags, from the
// arguments of the program. A negative number is not a flag.
std::vector<std::string> TakeWords(int* argc, char** argv) {
  std::vector<std::string> words;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const bool number = argv[i][0] == '-' && argv[i][1] >= '0' && argv[i][1] <= '9';
    if (argv[i][0] != '-' || number) {
      words.push_back(argv[i]);
      continue;
    }
    argv[kept++] = argv[i];
    if (TakesNextArgument(argv[i]) && i + 1 < *argc) argv[kept++] = argv[++i];
  }
  *argc = kept;
  argv[kept] = nullptr;
  return words;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> words = TakeWords(&argc, argv);
  InitProgram(&argc, &argv, absl::StrReplaceAll(kHelp, {{"{link flags}\n", kLinkFlagsHelp}}));
  if (!words.empty() && words[0] == kJournal) return RunJournalCommand(words);
  if (!words.empty() && words[0] == kFetch) return RunFetchCommand(words);
  const absl::Status status = RunCommand(words);
  return status.ok() ? 0 : ReportFailure(status);
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) { return ding::Main(argc, argv); }
