#include "ding_worker/worker/run/actor.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/worker/run/policy_description.h"

namespace ding {
namespace {

// `Mode` is EvalMode or CollectMode.
template <typename Mode>
class Actor : public EvalMode {
 public:
  Actor(std::unique_ptr<Policy> policy, Mode* mode, NamedValues settings)
      : policy_(std::move(policy)), mode_(*mode), settings_(std::move(settings)) {}

  const SpecPtr& output_spec() const override { return mode_.output_spec(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    return mode_.Forward(obs, env_ids, settings_, out);
  }
  absl::Status Reset(absl::Span<const int> env_ids) override { return mode_.Reset(env_ids); }
  absl::Status LoadModel(StateReader* reader) override { return mode_.LoadModel(reader); }

 private:
  const std::unique_ptr<Policy> policy_;
  Mode& mode_;
  const NamedValues settings_;
};

NamedValues CollectSettings(Policy* policy, const CheckpointInfo& info) {
  if (policy->command_mode() == nullptr) return {};
  const auto progress = [&](const char* name) {
    return static_cast<double>(CheckpointProgress(info, name));
  };
  return policy->command_mode()->GetSettingCollect(
      {{"learner_step", progress("train_iter")}, {"envstep", progress("env_step")}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<EvalMode>> LoadActor(const CheckpointReader& checkpoint,
                                                    const PolicyConfig& config,
                                                    PolicyContext context,
                                                    const ActorOptions& options) {
  context.modes = {/*learn=*/false, /*collect=*/options.sample, /*eval=*/!options.sample,
                   /*command=*/options.sample};
  context.seed = Rng::DeriveSeed(options.seed, "actor");
  context.reward_shape = {};
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, create_policy(config, context));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> model,
                        checkpoint.Component(kModelComponent));
  std::unique_ptr<EvalMode> actor;
  if (options.sample) {
    CollectMode* const collect = policy->collect_mode();
    NamedValues settings = CollectSettings(policy.get(), checkpoint.info());
    actor = std::make_unique<Actor<CollectMode>>(std::move(policy), collect, std::move(settings));
  } else {
    EvalMode* const eval = policy->eval_mode();
    actor = std::make_unique<Actor<EvalMode>>(std::move(policy), eval, NamedValues());
  }
  DING_RETURN_IF_ERROR(actor->LoadModel(model.get()));
  return actor;
}

}  // namespace ding
