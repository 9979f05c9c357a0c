// A serial collector: "whole_episodes" collects until the episodes that ended have n_sample rows or
// more. CollectCore does the steps; the class decides when it has enough, and has rewards shaped.
//   collector { type: "whole_episodes" params { [type.googleapis.com/own.WholeEpisodesParams] {} } }
#include <memory>
#include <utility>

#include "ding_worker/base/clock.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/collect_core.h"
#include "ding_worker/collector/serial_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

// The base class passes on to the core what a collector is asked for, besides Collect().
class EpisodesCollector : public ding::CoreCollector {
 public:
  EpisodesCollector(std::unique_ptr<ding::CollectCore> core, ding::RewardShaping shaping)
      : CoreCollector(std::move(core)), shaping_(std::move(shaping)) {}

  absl::StatusOr<ding::SegmentBatch> Collect(const ding::CollectOptions& options) override {
    const ding::Timer timer(core()->deps().clock);
    absl::StatusOr<ding::SegmentBatch> data = TryCollect(options);
    if (!data.ok()) return ding::Annotate(data.status(), core()->deps().name);
    core()->FinishCollect(options, timer.Seconds());
    return data;
  }

 private:
  absl::StatusOr<ding::SegmentBatch> TryCollect(const ding::CollectOptions& options) {
    DING_RETURN_IF_ERROR(core()->PrepareLevelSeeds(options.level_seeds));
    const int64_t target = options.target.value_or(core()->attributes(0).n_sample.value_or(1));
    while (core()->ready_rows(0) < target) {
      DING_ASSIGN_OR_RETURN(const ding::Timesteps* const steps, core()->StepReadyEnvs(options));
      for (const ding::FinishedEpisode& episode : steps->finished) {
        if (shaping_ == nullptr) continue;
        DING_RETURN_IF_ERROR(core()->ReshapeRewards(steps->env_ids[episode.row], shaping_));
      }
    }
    return core()->TakeTrainSamples(0);
  }

  const ding::RewardShaping shaping_;
};

absl::StatusOr<std::unique_ptr<ding::ISerialCollector>> Create(
    const ding::SerialCollectorConfig& config, ding::EnvManager* env, ding::CollectMode* policy,
    const ding::ComponentDeps& deps) {
  WholeEpisodesParams params;
  ding::CollectCore::Options options;
  options.whole_episodes = true;
  ding::ReadSerialCollectorOptions(config, &options.common);
  ding::ReadParams(config, &params, &options.common.problems);
  ding::RewardShaping shaping;
  if (!params.reward_shaping().empty()) {
    DING_ASSIGN_OR_RETURN(shaping, ding::RewardShapingRegistry().Find(params.reward_shaping()));
  }
  DING_ASSIGN_OR_RETURN(auto core,
                        ding::CollectCore::Create(options, env, ding::PoliciesOf(policy), deps));
  return std::make_unique<EpisodesCollector>(std::move(core), std::move(shaping));
}

DING_REGISTER(ding::SerialCollectorRegistry(), "whole_episodes",
              ding::SerialCollectorDescriptor{Create}, "whole episodes with at least so many rows",
              &WholeEpisodesParams::descriptor);

}  // namespace
}  // namespace own
