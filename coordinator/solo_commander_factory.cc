// Registers SoloCommander as "solo".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/coordinator/base_commander.h"
#include "ding_worker/coordinator/commander_registry.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/coordinator/solo_commander.h"

namespace ding {
namespace {

constexpr char kName[] = "solo";

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateSoloCommander(const CommanderConfig& config,
                                                                   const CommanderDeps& deps) {
  SoloCommander::Options options;
  options.collector_task_space = config.collector_task_space();
  options.learner_task_space = config.learner_task_space();
  options.eval_interval = config.eval_interval();
  options.collector_resources = config.collector_resources();
  options.learner_resources = config.learner_resources();
  options.stop_value = deps.stop_value;
  options.stop_after_seconds = config.stop_after_seconds();
  return SoloCommander::Create(options, deps.policy, deps);
}

CommanderDescriptor Descriptor() {
  CommanderDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.create = CreateSoloCommander;
  return descriptor;
}

DING_REGISTER(CommanderRegistry(), kName, Descriptor());

}  // namespace
}  // namespace ding
