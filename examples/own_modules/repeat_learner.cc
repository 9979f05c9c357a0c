// A learner: "repeat" trains several times on each batch. It derives from BaseLearner, so that
// hooks, checkpoints and resuming work as ever.
//   learner { type: "repeat" params { [type.googleapis.com/own.RepeatLearnerParams] { times: 3 } } }
#include <memory>
#include <utility>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/learner/learner_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class RepeatLearner : public ding::BaseLearner {
 public:
  RepeatLearner(Parts parts, int times) : BaseLearner(std::move(parts)), times_(times) {}

  absl::Status Train(const ding::Batch& data, int64_t envstep,
                     const ding::NamedValues& settings) override {
    for (int i = 0; i < times_; ++i) {
      DING_RETURN_IF_ERROR(BaseLearner::Train(data, envstep, settings));
    }
    return absl::OkStatus();
  }

 private:
  const int times_;
};

absl::StatusOr<std::unique_ptr<ding::ILearner>> Create(const ding::LearnerConfig& config,
                                                       const RepeatLearnerParams& params,
                                                       ding::LearnMode* policy,
                                                       const ding::ComponentDeps& deps,
                                                       ding::ProcessGroup* group) {
  if (params.times() < 1)
    return absl::InvalidArgumentError("times is below 1, expected at least 1");
  DING_ASSIGN_OR_RETURN(auto parts, ding::ReadBaseLearnerParts(config, policy, deps, group));
  return std::make_unique<RepeatLearner>(std::move(parts), params.times());
}

DING_REGISTER(ding::LearnerRegistry(), "repeat", Create, "trains several times on each batch");

}  // namespace
}  // namespace own
