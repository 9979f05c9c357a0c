#include "ding_worker/worker/program/program.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/metrics/terminal.h"
#include "ding_worker/worker/config/config_help.h"
#include "ding_worker/worker/config/text_parser.h"
#include "ding_worker/worker/run_folder/process_logs.h"
#include "gflags/gflags.h"
#include "glog/logging.h"

namespace ding {
namespace {

constexpr char kHelpConfig[] = "help_config";

// The flags of this program that gflags does not know, because they may stand several times.
std::vector<std::string>& RepeatedFlags() {
  static auto* const flags = new std::vector<std::string>;
  return *flags;
}

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

struct Crash {
  int number;
  const char* name;
  std::string* text;  // what is written; null: the signal is not ours
};
Crash crashes[] = {{SIGSEGV, "SIGSEGV", nullptr},
                   {SIGBUS, "SIGBUS", nullptr},
                   {SIGFPE, "SIGFPE", nullptr},
                   {SIGILL, "SIGILL", nullptr},
                   {SIGABRT, "SIGABRT", nullptr}};

// Its default action is restored already, and ends the process when this has returned.
void OnCrash(int number) {
  for (const Crash& crash : crashes) {
    if (crash.number != number || crash.text == nullptr) continue;
    const ssize_t written = write(STDERR_FILENO, crash.text->data(), crash.text->size());
    static_cast<void>(written);
  }
  raise(number);
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

// The argument is "--name", "-name", or either with "=value" behind it. Returns the name; empty if
// it is no flag.
absl::string_view NameOfFlag(absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "-")) return "";
  absl::ConsumePrefix(&argument, "-");
  return argument.substr(0, argument.find('='));
}

// Prints the help that --help_config asks for. Returns the exit code.
int PrintConfigHelp(absl::string_view path) {
  const absl::StatusOr<std::string> help = ConfigHelp(path);
  if (!help.ok()) {
    return ReportFailure(
        absl::NotFoundError(absl::StrCat("--help_config: ", help.status().message())));
  }
  std::printf("%s", help->c_str());  // NOLINT(ding): the help page of a program
  return 0;
}

// Exits after --help and --help_config, if one of them is among the arguments.
void ObeyHelp(int argc, char** argv, absl::string_view help) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    const absl::string_view name = NameOfFlag(argument);
    if (name == "help" || argument == "-h") {
      std::printf("%s", std::string(help).c_str());  // NOLINT(ding): the help page of a program
      std::exit(0);
    }
    if (name != kHelpConfig) continue;
    const size_t equals = argument.find('=');
    const bool is_next = equals == absl::string_view::npos && i + 1 < argc && argv[i + 1][0] != '-';
    std::exit(PrintConfigHelp(is_next                             ? argv[i + 1]
                              : equals == absl::string_view::npos ? ""
                                                                  : argument.substr(equals + 1)));
  }
}

// Returns an error for the first flag that does not exist. gflags would name no other flag.
absl::Status CheckFlags(int argc, char** argv) {
  std::vector<google::CommandLineFlagInfo> flags;
  google::GetAllFlags(&flags);
  std::vector<std::string> names = {kHelpConfig};
  names.insert(names.end(), RepeatedFlags().begin(), RepeatedFlags().end());
  for (const google::CommandLineFlagInfo& flag : flags) names.push_back(flag.name);
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (argument == "--") break;
    const std::string name(NameOfFlag(argument));
    if (name.empty()) continue;
    google::CommandLineFlagInfo flag;
    const bool exists = google::GetCommandLineFlagInfo(name.c_str(), &flag);
    const bool is_negated = !exists && absl::StartsWith(name, "no") &&
                            google::GetCommandLineFlagInfo(name.c_str() + 2, &flag) &&
                            flag.type == "bool";
    if (!exists && !is_negated) {
      const std::string near = NearestName(names, name);
      return absl::InvalidArgumentError(
          absl::StrCat("there is no flag --", name,
                       near.empty() ? "" : absl::StrCat("; did you mean --", near, "?"),
                       " (--help lists the flags)"));
    }
    // The value of this flag is the next argument.
    if (flag.type != "bool" && !absl::StrContains(argument, '=')) ++i;
  }
  return absl::OkStatus();
}

}  // namespace

const char kHelpConfigHelp[] =
    R"(  --help_config[=PATH]  explains every field that a config may have, with the types of this program and
                        their params, or the field at PATH (policy.learn), and exits
)";

ExitGuard::ExitGuard(const char* lost) {
  static const bool registered = on_exit(OnExit, nullptr) == 0;
  guarded_lost.store(lost);
  guarded_pid.store(registered ? getpid() : 0);
}

ExitGuard::~ExitGuard() { guarded_pid.store(0); }

absl::Status TakeRepeated(absl::string_view flag, absl::string_view value, int* argc, char** argv,
                          std::vector<std::string>* values) {
  RepeatedFlags().emplace_back(flag);
  const std::string name = absl::StrCat("--", flag);
  absl::Status status;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    absl::string_view argument = argv[i];
    // One dash is as good as two.
    const bool is_flag = absl::ConsumePrefix(&argument, name) ||
                         absl::ConsumePrefix(&argument, absl::string_view(name).substr(1));
    if (is_flag && argument.empty()) {
      if (i + 1 < *argc) {
        values->push_back(argv[++i]);
      } else {
        status = absl::InvalidArgumentError(absl::StrCat(name, " needs a ", value, " behind it"));
      }
    } else if (is_flag && absl::ConsumePrefix(&argument, "=")) {
      values->push_back(std::string(argument));
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  argv[kept] = nullptr;
  return status;
}

absl::Status TakeSettings(int* argc, char** argv, std::vector<std::string>* settings) {
  return TakeRepeated("set", "path=value", argc, argv, settings);
}

void InitProgram(int* argc, char*** argv, absl::string_view help) {
  // Writing a file beyond `ulimit -f` is an error of the write, as with a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  google::SetArgv(*argc,
                  const_cast<const char**>(*argv));  // ReportFailure() prints the program's name.
  ObeyHelp(*argc, *argv, help);
  const absl::Status flags = CheckFlags(*argc, *argv);
  if (!flags.ok()) std::exit(ReportFailure(flags));
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

void ExplainCrashes(absl::string_view advice) {
  // A stack that has overflowed has no room for the handler.
  static char stack[1 << 16];
  stack_t other = {};
  other.ss_sp = stack;
  other.ss_size = sizeof(stack);
  sigaltstack(&other, nullptr);
  for (Crash& crash : crashes) {
    struct sigaction before = {};
    if (sigaction(crash.number, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    crash.text = new std::string(absl::StrCat("\n", google::ProgramInvocationShortName(),
                                              ": crashed by ", crash.name, ": ", advice, "\n"));
    struct sigaction action = {};
    action.sa_handler = OnCrash;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
    sigaction(crash.number, &action, nullptr);
  }
}

int ReportFailure(const absl::Status& status) {
  WriteMessage(STDERR_FILENO,
               absl::StrCat(google::ProgramInvocationShortName(), ": ", status.message()));
  return 1;
}

}  // namespace ding
