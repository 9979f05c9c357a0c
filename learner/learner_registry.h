// Finds learners by the name in their config.
//
// Example:
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<BaseLearner> learner,
//                         create_learner(config, policy->learn_mode(), deps));
#ifndef DING_WORKER_LEARNER_LEARNER_REGISTRY_H_
#define DING_WORKER_LEARNER_LEARNER_REGISTRY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/learner.pb.h"
#include "ding_worker/learner/process_group.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/policy/policy.h"

namespace ding {

using LearnerCreator = std::function<absl::StatusOr<std::unique_ptr<BaseLearner>>(
    const LearnerConfig&, LearnMode*, const ComponentDeps&, ProcessGroup*)>;
Registry<LearnerCreator>& LearnerRegistry();

// A null `group` is a single process. kNotFound lists the linked names; kInvalidArgument lists all
// problems of the config.
absl::StatusOr<std::unique_ptr<BaseLearner>> create_learner(const LearnerConfig& config,
                                                            LearnMode* policy,
                                                            const ComponentDeps& deps,
                                                            ProcessGroup* group = nullptr);

}  // namespace ding

#endif  // DING_WORKER_LEARNER_LEARNER_REGISTRY_H_
