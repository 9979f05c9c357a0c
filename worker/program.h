// What the programs have in common: flags that may stand several times, a help page that fits a
// screen, quiet logs.
//
// Threads: for main() only.
#ifndef DING_WORKER_WORKER_PROGRAM_H_
#define DING_WORKER_WORKER_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ding {

// Takes every "--set path=value" and "--set=path=value" out of the arguments (gflags would keep
// only the last) and returns the assignments in their order. kInvalidArgument if one has no value.
absl::Status TakeSettings(int* argc, char** argv, std::vector<std::string>* settings);

// Raises the limit of open files, parses flags by gflags and starts glog: warnings and errors (or
// from --stderrthreshold on) to stderr, each on a line of its own beside a progress line, nothing to
// files of its own. From then on a file that grows beyond `ulimit -f` is an error of the write
// (SIGXFSZ is ignored, by child processes, too). With --help or -h prints `help` and exits with 0;
// an argument that is no flag is an error.
void InitProgram(int* argc, char*** argv, absl::string_view help);

// While it lives, exit() called by anybody in this process ends it with an error: an env, or another
// module of somebody's own, is not to make a run look as if it had come to its end. `lost` says what is
// missing then. Exit status 1, or that of exit() if it is another one than 0. Nothing notices _exit().
//
// One at a time.
class ExitGuard {
 public:
  explicit ExitGuard(const char* lost);
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;
  ~ExitGuard();
};

// Prints "<program>: <message>" to stderr. Returns the exit code of a program that failed: 1.
int ReportFailure(const absl::Status& status);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROGRAM_H_
