#include "ding_worker/worker/run/program.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/descriptor_limit.h"
#include "ding_worker/metrics/terminal.h"
#include "ding_worker/worker/run/glog_output.h"
#include "gflags/gflags.h"
#include "glog/logging.h"

namespace ding {
namespace {

// The process that has the guard; a child that it forks is not guarded.
std::atomic<pid_t> guarded_pid{0};
std::atomic<const char*> guarded_lost{""};

void OnExit(int status, void* /*unused*/) {
  if (guarded_pid.load() != getpid()) return;
  WriteMessage(
      STDERR_FILENO,
      absl::StrCat(google::ProgramInvocationShortName(), ": something in this process called exit(",
                   status, "), as an env or another module may: ", guarded_lost.load(), "\n"));
  _exit(status == 0 ? 1 : status);
}

// Writes to stderr instead of glog, which does not know that there may be a progress line.
class StderrSink : public google::LogSink {
 public:
  explicit StderrSink(int least) : least_(least) {}

  void send(google::LogSeverity severity, const char* /*full_filename*/, const char* base_filename,
            int line, const google::LogMessageTime& time, const char* message,
            size_t message_len) override {
    if (severity < least_) return;
    const std::string text = ToString(severity, base_filename, line, time, message, message_len);
    WriteMessage(STDERR_FILENO, UsesColors(STDERR_FILENO) ? Styled(StyleOf(severity), text) : text);
  }

 private:
  static TextStyle StyleOf(google::LogSeverity severity) {
    if (severity < google::GLOG_WARNING) return TextStyle::kPlain;
    return severity == google::GLOG_WARNING ? TextStyle::kWarning : TextStyle::kError;
  }

  const int least_;  // a google::LogSeverity
};

// Sends the messages that glog would write to stderr to a StderrSink, which exists until the
// process ends.
void LogBesideProgress() {
  const int least =
      FLAGS_logtostderr || FLAGS_alsologtostderr ? google::GLOG_INFO : FLAGS_stderrthreshold;
  FLAGS_logtostderr = FLAGS_alsologtostderr = false;
  FLAGS_stderrthreshold = google::NUM_SEVERITIES;
  google::AddLogSink(new StderrSink(least));
}

}  // namespace

ExitGuard::ExitGuard(const char* lost) {
  static const bool registered = on_exit(OnExit, nullptr) == 0;
  guarded_lost.store(lost);
  guarded_pid.store(registered ? getpid() : 0);
}

ExitGuard::~ExitGuard() { guarded_pid.store(0); }

absl::Status TakeSettings(int* argc, char** argv, std::vector<std::string>* settings) {
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--set" || argument == "-set") {
      if (i + 1 == *argc) return absl::InvalidArgumentError("--set needs a path=value behind it");
      settings->push_back(argv[++i]);
    } else if (absl::ConsumePrefix(&argument, "--set=") ||
               absl::ConsumePrefix(&argument, "-set=")) {
      settings->push_back(std::string(argument));
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  argv[kept] = nullptr;
  return absl::OkStatus();
}

void InitProgram(int* argc, char*** argv, absl::string_view help) {
  // Writing a file beyond `ulimit -f` is an error of the write, as with a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  for (int i = 1; i < *argc; ++i) {
    const absl::string_view argument = (*argv)[i];
    if (argument == "--help" || argument == "-help" || argument == "-h") {
      std::printf("%s", std::string(help).c_str());  // NOLINT(ding): the help page of a program
      std::exit(0);
    }
  }
  google::SetUsageMessage(std::string(help));
  FLAGS_stderrthreshold = google::GLOG_WARNING;
  for (const google::LogSeverity severity :
       {google::GLOG_INFO, google::GLOG_WARNING, google::GLOG_ERROR, google::GLOG_FATAL}) {
    google::SetLogDestination(severity, "");
  }
  RaiseDescriptorLimit();
  google::ParseCommandLineFlags(argc, argv, /*remove_flags=*/true);
  google::InitGoogleLogging((*argv)[0]);
  LogToGlog();
  LogBesideProgress();
  if (*argc > 1) {
    std::exit(ReportFailure(absl::InvalidArgumentError(
        absl::StrCat("unexpected argument '", (*argv)[1], "'; see --help"))));
  }
}

int ReportFailure(const absl::Status& status) {
  WriteMessage(STDERR_FILENO,
               absl::StrCat(google::ProgramInvocationShortName(), ": ", status.message()));
  return 1;
}

}  // namespace ding
