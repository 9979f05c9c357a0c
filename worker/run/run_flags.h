// The flags of every program that trains by a config which set a field of that config: --seed,
// --max_env_step, --max_train_iter and --python.
//
// Threads: to be called from main(), after the flags are parsed.
#ifndef DING_WORKER_WORKER_RUN_RUN_FLAGS_H_
#define DING_WORKER_WORKER_RUN_RUN_FLAGS_H_

#include <string>
#include <vector>

namespace ding {

// The description of these flags for help pages.
extern const char kRunFlagsHelp[];

// Returns a setting, as --set takes it, for each of these flags that was given.
std::vector<std::string> RunFlagSettings();

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_RUN_FLAGS_H_
