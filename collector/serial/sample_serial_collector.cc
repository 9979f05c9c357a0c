#include "ding_worker/collector/serial/sample_serial_collector.h"

#include <utility>

#include "absl/memory/memory.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
absl::StatusOr<std::unique_ptr<SampleSerialCollector>> SampleSerialCollector::Create(
    Options options, EnvManager* env, CollectMode* policy, ComponentDeps deps) {
  CollectCore::Options core_options;
  core_options.common = options;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectCore> core,
      CollectCore::Create(core_options, env, PoliciesOf(policy), std::move(deps)));
  return absl::WrapUnique(new SampleSerialCollector(std::move(core)));
}

SampleSerialCollector::SampleSerialCollector(std::unique_ptr<CollectCore> core)
    : core_(std::move(core)), collection_(core_.get()) {}

absl::Status SampleSerialCollector::ResetEnv(EnvManager* env) { return core_->ResetEnv(env); }

absl::Status SampleSerialCollector::ResetPolicy(CollectMode* policy) {
  return core_->ResetPolicies(PoliciesOf(policy));
}

absl::Status SampleSerialCollector::Reset(CollectMode* policy, EnvManager* env) {
  return core_->Reset(PoliciesOf(policy), env);
}

absl::Status SampleSerialCollector::DropEpisodes(absl::Span<const int> env_ids) {
  return core_->DropEpisodes(env_ids);
}

absl::StatusOr<SegmentBatch> SampleSerialCollector::Collect(const CollectOptions& options) {
  DING_ASSIGN_OR_RETURN(Collected collected, collection_.Collect({0}, options));
  return std::move(collected.players[0]);
}

absl::Status SampleSerialCollector::SaveState(StateWriter* writer) const {
  return core_->SaveState(writer);
}

absl::Status SampleSerialCollector::LoadState(StateReader* reader) {
  return core_->LoadState(reader);
}

}  // namespace ding
