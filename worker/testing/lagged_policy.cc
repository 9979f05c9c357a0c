#include "ding_worker/worker/testing/lagged_policy.h"

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"

namespace ding {
namespace {

// Passes all calls on to a learn mode, and hands its parameters after each update to a collect
// mode, `lag` updates late.
class LaggedLearn : public LearnMode {
 public:
  LaggedLearn(LearnMode* learn, CollectMode* collect, int64_t lag)
      : learn_(*learn), collect_(*collect), lag_(static_cast<size_t>(lag)) {}

  // To be called once, first.
  absl::Status Init() { return BeginWithModel(); }

  LearnAttributes attributes() const override { return learn_.attributes(); }
  std::vector<std::string> monitor_vars() const override { return learn_.monitor_vars(); }
  std::string info() const override {
    return absl::StrCat(learn_.info(), ", acts ", lag_, " versions late");
  }

  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    DING_RETURN_IF_ERROR(learn_.Forward(data, settings, steps));
    DING_RETURN_IF_ERROR(AddVersion());
    return collect_.LoadModel(&versions_.front());
  }
  absl::Status Reset() override { return learn_.Reset(); }

  absl::Status SaveModel(StateWriter* writer) const override { return learn_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override {
    DING_RETURN_IF_ERROR(learn_.LoadModel(reader));
    return BeginWithModel();
  }
  absl::Status SaveTrainState(StateWriter* writer) const override {
    return learn_.SaveTrainState(writer);
  }
  absl::Status LoadTrainState(StateReader* reader) override {
    return learn_.LoadTrainState(reader);
  }

 private:
  absl::Status BeginWithModel() {
    versions_.clear();
    DING_RETURN_IF_ERROR(AddVersion());
    return collect_.LoadModel(&versions_.front());
  }

  // Keeps the newest version and those that are to act before it.
  absl::Status AddVersion() {
    StateDict version;
    DING_RETURN_IF_ERROR(learn_.SaveModel(&version));
    versions_.push_back(std::move(version));
    if (versions_.size() > lag_ + 1) versions_.pop_front();
    return absl::OkStatus();
  }

  LearnMode& learn_;
  CollectMode& collect_;
  const size_t lag_;
  std::deque<StateDict> versions_;  // the oldest one acts
};

class LaggedPolicy : public Policy {
 public:
  LaggedPolicy(std::unique_ptr<Policy> learner, std::unique_ptr<Policy> actor)
      : learner_(std::move(learner)), actor_(std::move(actor)) {}

  // To be called once, first.
  absl::Status Init(int64_t lag) {
    learn_ = std::make_unique<LaggedLearn>(learner_->learn_mode(), actor_->collect_mode(), lag);
    return learn_->Init();
  }

  CollectMode* collect_mode() override { return actor_->collect_mode(); }
  LearnMode* learn_mode() override { return learn_.get(); }
  EvalMode* eval_mode() override { return learner_->eval_mode(); }
  CommandMode* command_mode() override { return learner_->command_mode(); }

 private:
  const std::unique_ptr<Policy> learner_;
  const std::unique_ptr<Policy> actor_;
  std::unique_ptr<LaggedLearn> learn_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Policy>> CreateLaggedPolicy(const PolicyConfig& config,
                                                           const PolicyContext& context,
                                                           int64_t lag) {
  if (lag < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the lag is ", lag, ", expected at least 0"));
  }
  if (!context.modes.learn || !context.modes.collect) {
    return absl::InvalidArgumentError(
        "a policy that acts by older parameters needs both its learn mode and its collect mode");
  }
  PolicyContext learns = context;
  learns.modes.collect = false;
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> learner, create_policy(config, learns));
  if (learner->learn_mode()->attributes().on_policy) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy '", config.type(),
                     "' learns from data of its current parameters only, so that it cannot act by "
                     "older ones"));
  }
  PolicyContext acts = context;
  acts.modes = {/*learn=*/false, /*collect=*/true, /*eval=*/false, /*command=*/false};
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> actor, create_policy(config, acts));
  auto policy = std::make_unique<LaggedPolicy>(std::move(learner), std::move(actor));
  DING_RETURN_IF_ERROR(policy->Init(lag));
  return policy;
}

}  // namespace ding
