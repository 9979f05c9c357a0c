// Makes the learner of a learning task from an experiment config, with its policy.
//
// Threads: the factory may be called by any thread, one at a time.
#ifndef DING_WORKER_WORKER_TASKS_CONFIGURED_LEARNER_H_
#define DING_WORKER_WORKER_TASKS_CONFIGURED_LEARNER_H_

#include <string>

#include "absl/status/status.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/experiment.pb.h"

namespace ding {

// For learner processes: makes a learner that saves its checkpoints below deps.exp_dir, and resumes
// from them if its task says so. The checkpoints carry the name of the run. A learner does not
// resume from the checkpoint of another policy, and refuses the checkpoint of another run. `place`
// is the number of the process among the learners (Welcome.place). `run` is the name of the run;
// empty: there is none.
TaskLearnerFactory MakeTaskLearnerFactory(const ExperimentConfig& config, const ComponentDeps& deps,
                                          int place = 0, const std::string& run = "");
CommLearnerOptions MakeCommLearnerOptions(const ExperimentConfig& config);

// Whether the learner processes of this program can learn together as the config wants.
absl::Status CheckCanGroupLearners(const ExperimentConfig& config);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TASKS_CONFIGURED_LEARNER_H_
