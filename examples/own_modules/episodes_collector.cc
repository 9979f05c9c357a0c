// A serial collector: "whole_episodes" collects until the episodes that ended have n_sample rows or more.
// CollectCore does the steps; the class decides when it has enough, and has rewards shaped.
//   collector { type: "whole_episodes" params { [type.googleapis.com/own.WholeEpisodesParams] {} } }
#include <memory>
#include <utility>

#include "ding_worker/base/clock.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/serial_config.h"
#include "ding_worker/collector/serial_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class EpisodesCollector : public ding::ISerialCollector {
 public:
  EpisodesCollector(std::unique_ptr<ding::CollectCore> core, ding::RewardShaping shaping)
      : core_(std::move(core)), shaping_(std::move(shaping)) {}

  absl::StatusOr<ding::SegmentBatch> Collect(const ding::CollectOptions& options) override {
    const ding::Timer timer(core_->deps().clock);
    absl::StatusOr<ding::SegmentBatch> data = TryCollect(options);
    if (!data.ok()) return ding::Annotate(data.status(), core_->deps().name);
    core_->FinishCollect(options, timer.Seconds());
    return data;
  }

  // The core does the rest.
  absl::Status ResetEnv(ding::EnvManager* env) override { return core_->ResetEnv(env); }
  absl::Status ResetPolicy(ding::CollectMode* policy) override {
    return core_->ResetPolicies(ding::PoliciesOf(policy));
  }
  absl::Status Reset(ding::CollectMode* policy, ding::EnvManager* env) override {
    return core_->Reset(ding::PoliciesOf(policy), env);
  }
  absl::Status DropEpisodes(absl::Span<const int> ids) override { return core_->DropEpisodes(ids); }
  int64_t envstep() const override { return core_->envstep(); }
  void set_envstep(int64_t envstep) override { core_->set_envstep(envstep); }
  int64_t total_episode_count() const override { return core_->total_episode_count(); }
  absl::Status SaveState(ding::StateWriter* to) const override { return core_->SaveState(to); }
  absl::Status LoadState(ding::StateReader* from) override { return core_->LoadState(from); }

 private:
  absl::StatusOr<ding::SegmentBatch> TryCollect(const ding::CollectOptions& options) {
    DING_RETURN_IF_ERROR(core_->PrepareLevelSeeds(options.level_seeds));
    const int64_t target = options.target.value_or(core_->attributes(0).n_sample.value_or(1));
    while (core_->ready_rows(0) < target) {
      DING_ASSIGN_OR_RETURN(const ding::Timesteps* const steps, core_->StepReadyEnvs(options));
      for (const ding::FinishedEpisode& episode : steps->finished) {
        if (shaping_ == nullptr) continue;
        DING_RETURN_IF_ERROR(core_->ReshapeRewards(steps->env_ids[episode.row], shaping_));
      }
    }
    return core_->TakeTrainSamples(0);
  }

  const std::unique_ptr<ding::CollectCore> core_;
  const ding::RewardShaping shaping_;
};

absl::StatusOr<std::unique_ptr<ding::ISerialCollector>> Create(
    const ding::SerialCollectorConfig& config, ding::EnvManager* env, ding::CollectMode* policy,
    const ding::ComponentDeps& deps) {
  WholeEpisodesParams params;
  ding::CollectCore::Options options;
  options.whole_episodes = true;
  ding::ReadSerialCollectorOptions(config, &options.common);
  ding::ReadParams(config, &params, &options.problems);
  ding::RewardShaping shaping;
  if (!params.reward_shaping().empty()) {
    DING_ASSIGN_OR_RETURN(shaping, ding::RewardShapingRegistry().Find(params.reward_shaping()));
  }
  DING_ASSIGN_OR_RETURN(auto core,
                        ding::CollectCore::Create(options, env, ding::PoliciesOf(policy), deps));
  return std::make_unique<EpisodesCollector>(std::move(core), std::move(shaping));
}

ding::SerialCollectorDescriptor Descriptor() {
  ding::SerialCollectorDescriptor descriptor;
  descriptor.name = "whole_episodes";
  descriptor.create = Create;
  return descriptor;
}

DING_REGISTER(ding::SerialCollectorRegistry(), "whole_episodes", Descriptor(),
              "whole episodes with at least so many rows", &WholeEpisodesParams::descriptor);

}  // namespace
}  // namespace own
