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

// Parses flags by gflags and starts glog: warnings and errors (or from --stderrthreshold on) to stderr,
// each on a line of its own beside a progress line, nothing to files of its own. With --help or -h prints `help` and exits with 0; an argument that is no flag is an error.
void InitProgram(int* argc, char*** argv, absl::string_view help);

// Prints "<program>: <message>" to stderr. Returns the exit code of a program that failed: 1.
int ReportFailure(const absl::Status& status);

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROGRAM_H_
