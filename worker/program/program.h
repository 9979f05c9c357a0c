// The parts that the programs share: flags that may be given several times, a help page that fits
// on a screen, and quiet logs.
//
// Threads: to be called from main() only.
#ifndef DING_WORKER_WORKER_PROGRAM_PROGRAM_H_
#define DING_WORKER_WORKER_PROGRAM_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ding {

// Removes every "--<flag> <value>" and "--<flag>=<value>" from the arguments (gflags would keep
// only the last) and returns the values in their order. kInvalidArgument: one has no value; the
// message calls it `value`.
absl::Status TakeRepeated(absl::string_view flag, absl::string_view value, int* argc, char** argv,
                          std::vector<std::string>* values);
// Does the same for "--set path=value".
absl::Status TakeSettings(int* argc, char** argv, std::vector<std::string>* settings);

// Raises the limit of open files, parses flags by gflags and starts glog. Warnings and errors (or
// messages from --stderrthreshold on) go to stderr, each on a line of its own beside a progress
// line; glog writes no files of its own. From then on, writing a file beyond `ulimit -f` is an
// error of the write (SIGXFSZ is ignored, also by child processes). With --help or -h, prints
// `help` and exits with 0; with --help_config[=PATH], what ConfigHelp() (config/config_help.h)
// says. A flag that does not exist is an error that names the nearest one, and an argument that is
// no flag is an error.
void InitProgram(int* argc, char*** argv, absl::string_view help);

// While an object of this class lives, any call of exit() in this process is turned into an error,
// so that an env or another user-supplied module cannot make a run look as if it had come to its
// end. The message includes `lost`, which says what is missing then. The exit status is 1, or that
// of exit() if it is not 0. A call of _exit() is not noticed.
//
// At most one such object may live at a time.
class ExitGuard {
 public:
  explicit ExitGuard(const char* lost);
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;
  ~ExitGuard();
};

// From now on a crash of this process (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) writes the name of
// the signal and `advice` to stderr before it ends the process in the same way as without this
// call. A signal that already has a handler, such as a sanitizer's, is left alone. Call it once.
void ExplainCrashes(absl::string_view advice);

// The description of --help_config for help pages.
extern const char kHelpConfigHelp[];

// Prints "<program>: <message>" to stderr. Returns the exit code of a program that failed: 1.
int ReportFailure(const absl::Status& status);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROGRAM_PROGRAM_H_
