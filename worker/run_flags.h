// The flags of every program that trains by a config, which stand for a field of it: --seed,
// --max_env_step and --max_train_iter.
//
// Threads: for main(), after the flags are parsed.
#ifndef DING_WORKER_WORKER_RUN_FLAGS_H_
#define DING_WORKER_WORKER_RUN_FLAGS_H_

#include <string>
#include <vector>

namespace ding {

// For their help pages.
extern const char kRunFlagsHelp[];

// A setting, as of --set, for each that was given.
std::vector<std::string> RunFlagSettings();

}  // namespace ding

#endif  // DING_WORKER_WORKER_RUN_FLAGS_H_
