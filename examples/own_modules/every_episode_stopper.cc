// A stopper: "every_episode" ends the run when each episode of an evaluation has a return of at
// least `value`.
//   stopper { type: "every_episode" params { [type.googleapis.com/own.EveryEpisodeParams] { value: 180 } } }
#include <algorithm>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/learner/stopper_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class EveryEpisodeStopper : public ding::IStopper {
 public:
  explicit EveryEpisodeStopper(double value) : value_(value) {}

  std::string WhyStop(const ding::RunMoment& now) override {
    // Between evaluations there is nothing new. It remembers nothing, so that it has no state to
    // save.
    if (now.evaluation == nullptr || now.evaluation->episode_return.empty()) return "";
    const auto& returns = now.evaluation->episode_return;
    const double least = *std::min_element(returns.begin(), returns.end());
    if (least < value_) return "";
    return absl::StrCat("the least return of an evaluation is ", least);
  }

 private:
  const double value_;
};

absl::StatusOr<std::unique_ptr<ding::IStopper>> Make(const ding::StopperConfig& /*config*/,
                                                     const EveryEpisodeParams& params,
                                                     const ding::StopperDeps& deps) {
  if (!deps.has_evaluations || !params.has_value() || params.value() > deps.max_return) {
    return absl::InvalidArgumentError(
        "it could never stop: expected a run with evaluations, and a value that the env allows");
  }
  return std::make_unique<EveryEpisodeStopper>(params.value());
}

DING_REGISTER(ding::StopperRegistry(), "every_episode", Make,
              "ends the run when each episode of an evaluation reaches a value");

}  // namespace
}  // namespace own
