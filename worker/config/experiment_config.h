// Reads the config of a run from a file, applies --set to it, checks it and splits it into the
// configs of the modules.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_EXPERIMENT_CONFIG_H_
#define DING_WORKER_WORKER_CONFIG_EXPERIMENT_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// Returns the text of a config that a user names: a file, a FIFO, /dev/stdin or a shell's <(...).
// Waits until the writer closes it, and logs after a second that it waits; a signal ends the
// program.
//   kNotFound, ...     the file cannot be opened
//   kInvalidArgument   it is a folder, is empty, or has more than kMaxReadBytes
absl::StatusOr<std::string> ReadConfigText(const std::string& path);

// Reads `path` like ReadConfigText(), applies `settings` ("path=value") in their order, fills in
// every default, the policy's defaults (policy_defaults.h) first, and checks the result.
//   kNotFound          there is no such file
//   kInvalidArgument   lists every problem found, one per line: unknown fields (line and column),
//                      wrong types, values out of range, names that this program does not know
absl::StatusOr<ExperimentConfig> LoadExperimentConfig(const std::string& path,
                                                      absl::Span<const std::string> settings);
// Does the same for the config in the string `text`; messages name it by `source`.
absl::StatusOr<ExperimentConfig> ParseExperimentConfig(absl::string_view text,
                                                       absl::string_view source,
                                                       absl::Span<const std::string> settings);

// Returns a problem for every value out of range and for every name that no registry of this
// program has, each as "<path> is <found>, expected <...>". The content of an Any is checked later,
// by the module that is created from it.
std::vector<std::string> FindProblems(const ExperimentConfig& config);

// Returns the problems of how much one collect gathers: n_sample rows or n_episode episodes,
// depending on the type of the collector. `parallel`: the run is parallel, and each collector
// gathers its share.
std::vector<std::string> FindCollectProblems(const ExperimentConfig& config, bool parallel);

// Whether the run learns from a data set instead of collecting.
bool IsSupervised(const ExperimentConfig& config);
// Whether a parallel run has its files (checkpoints, logs, ...) in the store, and no shared folder.
bool FilesAreInStore(const ExperimentConfig& config);
// Whether the coordinator's journal is in the store: if the config says so, or the files are there.
bool JournalIsInStore(const ExperimentConfig& config);
// Whether the policy plays games against the opponent of the config.
bool HasOpponent(const ExperimentConfig& config);
// Whether that opponent learns.
bool OpponentLearns(const ExperimentConfig& config);

// The name of the function that shapes the rewards of collected episodes; empty: there is none.
std::string RewardShapingOf(const ExperimentConfig& config);

// The configs of env and policy: their sections, completed by values that modules share. (Other
// modules are given their messages as they stand in the config.)
EnvConfig MakeEnvConfig(const ExperimentConfig& config);
EnvConfig MakeEvaluatorEnvConfig(const ExperimentConfig& config);
PolicyConfig MakePolicyConfig(const ExperimentConfig& config);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_EXPERIMENT_CONFIG_H_
