#include "ding_worker/coordinator/commander/commander_registry.h"

#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<CommanderDescriptor>& CommanderRegistry() {
  static auto* const registry = new Registry<CommanderDescriptor>("commander");
  return *registry;
}

absl::StatusOr<CommanderDescriptor> get_parallel_commander_cls(const CommanderConfig& config) {
  return CommanderRegistry().Find(config.type());
}

absl::StatusOr<std::unique_ptr<BaseCommander>> create_parallel_commander(
    const CommanderConfig& config, const CommanderDeps& deps) {
  DING_ASSIGN_OR_RETURN(const CommanderDescriptor descriptor, get_parallel_commander_cls(config));
  DING_RETURN_IF_ERROR(Annotate(CheckParams(descriptor.check_params, config), "commander"));
  return CallFactory("commander", config.type(), [&] { return descriptor.create(config, deps); });
}

}  // namespace ding
