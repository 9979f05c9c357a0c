// Registers SoloCommander as "solo".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/commander/solo_options.h"
#include "ding_worker/coordinator/coordinator.pb.h"

namespace ding {
namespace {

constexpr char kName[] = "solo";

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateSoloCommander(const CommanderConfig& config,
                                                                   const CommanderDeps& deps) {
  SoloCommander::Options options = ToSoloOptions(config, deps);
  options.has_opponent = deps.has_opponent;
  options.opponent = deps.opponent;
  if (deps.has_opponent) options.learner_task_space = 2;
  return SoloCommander::Create(options, deps.policy, deps);
}

CommanderDescriptor Descriptor() {
  CommanderDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.for_data_sets = true;
  descriptor.for_lockstep = true;
  descriptor.for_opponent = true;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateSoloCommander;
  return descriptor;
}

DING_REGISTER(CommanderRegistry(), kName, Descriptor(),
              "trains one policy, with an evaluation every eval_interval");

}  // namespace
}  // namespace ding
