// Finds the fields of an experiment config that a kind of run does not use. Such a field is refused
// if it is set to something other than its default, so that nobody expects an effect that it does
// not have. worker/config_fields.txt lists all fields, and its test keeps that list and this code
// in step.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_UNUSED_FIELDS_H_
#define DING_WORKER_WORKER_CONFIG_UNUSED_FIELDS_H_

#include <optional>
#include <string>
#include <vector>

#include "ding_worker/worker/experiment.pb.h"

namespace ding {

enum class RunKind : unsigned {
  kSerial = 1,      // off-policy, in one process
  kOnPolicy = 2,    // in one process
  kSupervised = 4,  // in one process
  kParallel = 8,    // off-policy
  kLeague = 16,     // a parallel run whose commander plays games
  kOnPolicyParallel = 32,
  kSupervisedParallel = 64,  // a parallel run with a data set
};

// Returns a sentence for each field that is set and that such a run does not use, and in runs with
// a data set for each wrapper that has no effect. `config` is one that ParseExperimentConfig()
// returned. A field that is set to its default is accepted, since a resolved config sets all
// fields. With `or_kind`, a field is refused only if neither kind uses it.
std::vector<std::string> FindUnusedFields(const ExperimentConfig& config, RunKind kind,
                                          std::optional<RunKind> or_kind = std::nullopt);

// Returns the paths of the fields that are set and that such a run leaves out, because they say how
// work is divided among processes: one config may serve runs in one process and in several.
std::vector<std::string> FindLeftOutFields(const ExperimentConfig& config, RunKind kind);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_UNUSED_FIELDS_H_
