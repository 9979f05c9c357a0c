// The flags of the programs that train: --seed, --max_env_step, --max_train_iter and --python,
// which set a field of the config, and --progress.
//
// Threads: to be called from main(), after the flags are parsed.
#ifndef DING_WORKER_WORKER_PROGRAM_TRAIN_FLAGS_H_
#define DING_WORKER_WORKER_PROGRAM_TRAIN_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/metrics/progress.h"

namespace ding {

// The description of the flags that set a field of the config, for help pages.
extern const char kRunFlagsHelp[];
// The description of --progress: how the progress is shown on stderr.
extern const char kProgressFlagsHelp[];

// Returns a setting, as --set takes it, for each of the flags of kRunFlagsHelp that was given.
std::vector<std::string> RunFlagSettings();

// OK if --progress has one of its values. kInvalidArgument lists them.
absl::Status CheckProgressFlags();

// Returns options that show the progress on stderr as --progress says. CheckProgressFlags() must
// have accepted the flag.
ProgressOptions ProgressByFlags();

// Returns --progress as it was given, for a program that is started by this one.
std::string ProgressArgument();

}  // namespace ding

#endif  // DING_WORKER_WORKER_PROGRAM_TRAIN_FLAGS_H_
