// A hook of the learner: "best_loss" writes the least loss so far after every `freq` iterations, as
// the metric own/best_loss.
//   learner { hook { hook { type: "best_loss" freq: 10 } } }
#include <algorithm>
#include <limits>
#include <memory>

#include "ding_worker/learner/learner.h"
#include "ding_worker/learner/learner_registry.h"

namespace own {
namespace {

class BestLossHook : public ding::LearnerHook {
 public:
  explicit BestLossHook(const ding::LearnerHookConfig& config)
      : LearnerHook(config.name(), config.priority(), ding::HookPosition::kAfterIter),
        freq_(config.freq()) {}

  absl::Status Call(ding::LearnerView* learner) override {
    best_ = std::min(best_, learner->current_step()->scalars.GetOr("total_loss", best_));
    if (learner->train_iter() % freq_ != 0) return absl::OkStatus();
    learner->deps().metrics->Scalar("own/best_loss", learner->train_iter(), best_);
    return absl::OkStatus();
  }

 private:
  const int64_t freq_;
  double best_ = std::numeric_limits<double>::infinity();
};

DING_REGISTER(
    ding::LearnerHookRegistry(), "best_loss",
    [](const ding::LearnerHookConfig& config, const ding::NoParams&) {
      return std::make_shared<BestLossHook>(config);
    },
    "writes the least loss so far");

}  // namespace
}  // namespace own
