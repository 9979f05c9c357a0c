#include "ding_worker/collector/parallel/random_start.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<std::unique_ptr<RandomStart>> RandomStart::Create(CollectMode* policy,
                                                                 const EnvSpec& player,
                                                                 uint64_t seed,
                                                                 std::function<bool()> at_random) {
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<RandomCollectMode> random,
      RandomCollectMode::Create(player.action, seed, policy->attributes(), player.observation));
  if (*random->output_spec() != *policy->output_spec()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "policy.random_collect_size is set, but the policy stores more of a step than its action: ",
        policy->output_spec()->DebugString(), ", expected ", random->output_spec()->DebugString(),
        ": set random_collect_size to 0"));
  }
  return absl::WrapUnique(new RandomStart(policy, std::move(random), std::move(at_random)));
}

absl::Status RandomStart::Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                                  const NamedValues& settings, const MutableColumnsView& out) {
  CollectMode* const acting = at_random_() ? random_.get() : policy_;
  return acting->Forward(obs, env_ids, settings, out);
}

absl::Status RandomStart::ForwardWith(const ColumnsView& obs, absl::Span<const int> env_ids,
                                      const NamedValues& settings, const TensorMap& tensors,
                                      const MutableColumnsView& out) {
  return at_random_() ? random_->Forward(obs, env_ids, settings, out)
                      : policy_->ForwardWith(obs, env_ids, settings, tensors, out);
}

}  // namespace ding
