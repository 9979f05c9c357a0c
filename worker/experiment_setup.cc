#include "ding_worker/worker/experiment_setup.h"

#include <string>
#include <utility>
#include <vector>

#include "ding_worker/env/env_registry.h"
#include "ding_worker/worker/experiment_config.h"
#include "ding_worker/worker/text_config.h"

namespace ding {
namespace {

constexpr char kConfigField[] = "config";

}  // namespace

absl::StatusOr<std::unique_ptr<EnvManager>> MakeEnvManager(const ExperimentConfig& config,
                                                           int env_num, const Clock* clock) {
  const EnvFactory factory = [env = MakeEnvConfig(config)] { return create_env(env); };
  std::vector<EnvFactory> factories(static_cast<size_t>(env_num), factory);
  return create_env_manager(config.env().manager(), std::move(factories), clock);
}

PolicyContext MakePolicyContext(const ExperimentConfig& config, const EnvSpec& env,
                                const PolicyModes& modes) {
  PolicyContext context;
  context.observation = env.observation;
  context.action = env.action;
  context.seed = config.seed();
  context.modes = modes;
  return context;
}

void DescribeRun(const ExperimentConfig& config, absl::string_view env_name, CheckpointInfo* info) {
  info->fields[kConfigField] = PrintTextConfig(config);
  info->fields["env"] = std::string(env_name);
  info->fields["policy"] = config.policy().type();
}

absl::StatusOr<ExperimentConfig> ConfigOfCheckpoint(const CheckpointInfo& info) {
  const auto found = info.fields.find(kConfigField);
  if (found == info.fields.end()) {
    return absl::NotFoundError(
        "the checkpoint holds no config; it was not saved by //worker:serial");
  }
  return ParseExperimentConfig(found->second, "config in the checkpoint", {});
}

}  // namespace ding
