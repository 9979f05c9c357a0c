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
  return SoloCommander::Create(ToSoloOptions(config, deps), deps.policy, deps);
}

CommanderDescriptor Descriptor() {
  CommanderDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.for_data_sets = true;
  descriptor.for_lockstep = true;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateSoloCommander;
  return descriptor;
}

DING_REGISTER(CommanderRegistry(), kName, Descriptor(),
              "trains one policy, with an evaluation every eval_interval");

}  // namespace
}  // namespace ding
