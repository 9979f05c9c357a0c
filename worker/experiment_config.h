// The config of a run: read from a file, changed by --set, checked, and split into what each module
// is given.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_EXPERIMENT_CONFIG_H_
#define DING_WORKER_WORKER_EXPERIMENT_CONFIG_H_

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

// Reads `path`, applies `settings` ("path=value") in their order, fills in every default and checks
// the whole.
//   kNotFound          no such file
//   kInvalidArgument   with every problem found, one a line: unknown fields (line and column),
//   wrong types, values out
//                      of range, names that this program does not know
absl::StatusOr<ExperimentConfig> LoadExperimentConfig(const std::string& path,
                                                      absl::Span<const std::string> settings);
// The same for a config that is a string; `source` stands in messages.
absl::StatusOr<ExperimentConfig> ParseExperimentConfig(absl::string_view text,
                                                       absl::string_view source,
                                                       absl::Span<const std::string> settings);

// Every value out of range and every name that no registry of this program has, as "<path> is
// <found>, expected <...>". What lies in an Any, the module that it is for checks when it is
// created.
std::vector<std::string> FindProblems(const ExperimentConfig& config);

// Whether the run learns from a data set, and does not collect.
bool IsSupervised(const ExperimentConfig& config);

// What env and policy are given: their sections, with what the nesting shares among the modules.
// (The other modules' messages stand in the config as they are given.)
EnvConfig MakeEnvConfig(const ExperimentConfig& config);
EnvConfig MakeEvaluatorEnvConfig(const ExperimentConfig& config);
PolicyConfig MakePolicyConfig(const ExperimentConfig& config);

}  // namespace ding

#endif  // DING_WORKER_WORKER_EXPERIMENT_CONFIG_H_
