#include "ding_worker/worker/parallel_run/earlier_run.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/learner/checkpoint.h"

namespace ding {
absl::StatusOr<int64_t> FirstEnvStep(const ExperimentConfig& config, const Journal* journal) {
  const LearnSection& learn = config.policy().learn();
  const std::string& path = learn.learner().hook().load_ckpt_before_run();
  if (!learn.resume_training() || path.empty()) return 0;
  if (journal != nullptr) {
    DING_ASSIGN_OR_RETURN(const std::optional<RecordedRun> run, journal->ReadRun());
    if (run.has_value()) return 0;
  }
  DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, OpenTrainCheckpoint(path));
  const auto field = checkpoint.info().fields.find("env_step");
  int64_t env_step = 0;
  if (field == checkpoint.info().fields.end() || !absl::SimpleAtoi(field->second, &env_step)) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint '", path, "' does not say how many env steps its run had, but ",
                     "policy.learn.resume_training is true: expected one that a learner saved"));
  }
  return std::max<int64_t>(0, env_step);  // -1: the learner had not trained
}

}  // namespace ding
