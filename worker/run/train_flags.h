// The flags of every program that trains by a config which set a field of that config: --seed,
// --max_env_step, --max_train_iter and --python.
//
// Threads: to be called from main(), after the flags are parsed.
#ifndef DING_WORKER_WORKER_RUN_TRAIN_FLAGS_H_
#define DING_WORKER_WORKER_RUN_TRAIN_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/metrics/progress.h"

namespace ding {

// The description of these flags for help pages.
extern const char kRunFlagsHelp[];

// Returns a setting, as --set takes it, for each of these flags that was given.
std::vector<std::string> RunFlagSettings();

// The flag --progress of the programs that train: how their progress is shown on stderr.
//
// Threads: to be called from main(), after the flags are parsed.

// The description of the flag for help pages.
extern const char kProgressFlagsHelp[];

// OK if --progress has one of its values. kInvalidArgument lists them.
absl::Status CheckProgressFlags();

// Options that show the progress on stderr as --progress wants it, which CheckProgressFlags() has accepted.
ProgressOptions ProgressByFlags();

// Returns the flag as it was given, for a program that is started by this one.
std::string ProgressArgument();

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_TRAIN_FLAGS_H_
