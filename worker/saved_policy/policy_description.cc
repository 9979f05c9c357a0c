#include "ding_worker/worker/saved_policy/policy_description.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/spec_json.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/actor/describe_actor.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/config/text_config.h"

namespace ding {
namespace {

constexpr char kPolicyConfig[] = "policy_config";

std::string FieldOf(const CheckpointInfo& info, const std::string& name) {
  const auto found = info.fields.find(name);
  return found == info.fields.end() ? "" : found->second;
}

}  // namespace

void DescribePolicy(const PolicyConfig& config, const EnvSpec& player, CheckpointInfo* info) {
  info->fields[kPolicyConfig] = PrintTextConfig(config);
  const absl::StatusOr<ActorDescription> actor = DescribeActor(config, *player.action);
  info->fields[kActorField] =
      actor.ok() ? ActorDescriptionToJson(*actor) : ActorProblemToJson(actor.status().message());
  std::string observation = SpecToJson(*player.observation);
  std::string action = SpecToJson(*player.action);
  if (std::max(observation.size(), action.size()) > kMaxSpaceBytes) return;
  info->fields[kObservationField] = std::move(observation);
  info->fields[kActionField] = std::move(action);
}

absl::Status CheckPolicyIsLinked(const CheckpointInfo& info) {
  const std::string type = FieldOf(info, "policy");
  if (type.empty() || PolicyRegistry().Find(type).ok()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "its policy is '", type, "', which this program does not have; it has: ",
      absl::StrJoin(PolicyRegistry().Names(), ", "),
      ". Use the program that trained it, or link the target that registers the policy"));
}

absl::StatusOr<EnvSpec> SpacesOf(const CheckpointInfo& info) {
  EnvSpec player;
  player.name = FieldOf(info, "env");
  for (const auto& [name, spec] : {std::make_pair(kObservationField, &player.observation),
                                   std::make_pair(kActionField, &player.action)}) {
    const std::string text = FieldOf(info, name);
    if (text.empty()) continue;
    absl::StatusOr<SpecPtr> read = SpecFromJson(text);
    if (!read.ok()) return Annotate(read.status(), absl::StrCat("its field '", name, "'"));
    *spec = *std::move(read);
  }
  return player;
}

absl::StatusOr<PolicyDescription> DescriptionOf(const CheckpointInfo& info) {
  const std::string config = FieldOf(info, kPolicyConfig);
  if (config.empty()) {
    return absl::FailedPreconditionError(
        "it does not describe its policy: an earlier version wrote it. Train on from it, and use a "
        "checkpoint of that run");
  }
  DING_RETURN_IF_ERROR(CheckPolicyIsLinked(info));
  PolicyDescription description;
  const std::vector<std::string> problems =
      ParseTextConfig(config, kPolicyConfig, &description.config);
  if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
  DING_ASSIGN_OR_RETURN(description.player, SpacesOf(info));
  return description;
}

int64_t CheckpointProgress(const CheckpointInfo& info, absl::string_view name) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(FieldOf(info, std::string(name)), &value)) return 0;
  return std::max<int64_t>(0, value);
}

}  // namespace ding
