#include "ding_worker/collector/serial/episode_serial_collector.h"

#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<std::unique_ptr<EpisodeSerialCollector>> EpisodeSerialCollector::Create(
    Options options, EnvManager* env, CollectMode* policy, ComponentDeps deps) {
  CollectCore::Options core_options;
  core_options.common = options;
  core_options.whole_episodes = true;
  core_options.log_samples = false;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CollectCore::Create(core_options, env, PoliciesOf(policy), std::move(deps)));
  return absl::WrapUnique(new EpisodeSerialCollector(std::move(options), std::move(core)));
}

EpisodeSerialCollector::EpisodeSerialCollector(Options options, std::unique_ptr<CollectCore> core)
    : core_(std::move(core)),
      collection_({options.get_train_sample, std::move(options.reward_shaping)}, core_.get()) {}

absl::Status EpisodeSerialCollector::ResetEnv(EnvManager* env) { return core_->ResetEnv(env); }

absl::Status EpisodeSerialCollector::ResetPolicy(CollectMode* policy) {
  return core_->ResetPolicies(PoliciesOf(policy));
}

absl::Status EpisodeSerialCollector::Reset(CollectMode* policy, EnvManager* env) {
  return core_->Reset(PoliciesOf(policy), env);
}

absl::Status EpisodeSerialCollector::DropEpisodes(absl::Span<const int> env_ids) {
  return core_->DropEpisodes(env_ids);
}

absl::StatusOr<SegmentBatch> EpisodeSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, collection_.Collect({0}, options));
  return std::move(collected.players[0]);
}

absl::Status EpisodeSerialCollector::SaveState(StateWriter* writer) const {
  return collection_.SaveState(writer);
}

absl::Status EpisodeSerialCollector::LoadState(StateReader* reader) {
  return collection_.LoadState(reader);
}

}  // namespace ding
