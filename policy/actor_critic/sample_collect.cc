#include "ding_worker/policy/actor_critic/sample_collect.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/actor_critic/greedy_eval.h"

namespace ding {
namespace {

constexpr char kRng[] = "rng";

}  // namespace

SampleCollect::SampleCollect(std::string name, ActorCritic* networks,
                             const CollectAttributes& attributes, uint64_t seed)
    : name_(std::move(name)),
      networks_(*networks),
      attributes_(attributes),
      rng_(seed, "policy/collect") {
  const absl::Span<const FieldSpec> sampled = networks_.distribution().sample_fields();
  output_ = *MakeSpec({sampled.begin(), sampled.end()});
}

absl::Status SampleCollect::Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                                    const NamedValues& /*settings*/,
                                    const MutableColumnsView& out) {
  const absl::Status status = Sample(obs, out);
  return status.ok() ? status : Annotate(status, absl::StrCat(name_, ", collect"));
}

absl::Status SampleCollect::Sample(const ColumnsView& obs, const MutableColumnsView& out) {
  DING_RETURN_IF_ERROR(CheckOutput(*output_, obs, out));
  if (obs.rows() == 0) return absl::OkStatus();
  DING_RETURN_IF_ERROR(networks_.Act(obs, {}));
  networks_.distribution().Sample(&rng_, out.Slice(0, obs.rows()));
  return absl::OkStatus();
}

absl::Status SampleCollect::SaveState(StateWriter* writer) const {
  return writer->WriteRng(kRng, rng_);
}

absl::Status SampleCollect::LoadState(StateReader* reader) { return reader->ReadRng(kRng, &rng_); }

}  // namespace ding
