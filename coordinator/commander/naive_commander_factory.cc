// Registers NaiveCommander as "naive".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/naive_commander.h"
#include "ding_worker/coordinator/coordinator.pb.h"

namespace ding {
namespace {

constexpr char kName[] = "naive";

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateNaiveCommander(const CommanderConfig& config,
                                                                    const CommanderDeps&) {
  NaiveCommander::Options options;
  if (config.has_collector_task_space()) {
    options.collector_task_space = config.collector_task_space();
  }
  options.learner_task_space = config.learner_task_space();
  return NaiveCommander::Create(options);
}

CommanderDescriptor Descriptor() {
  CommanderDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateNaiveCommander;
  return descriptor;
}

DING_REGISTER(CommanderRegistry(), kName, Descriptor(),
              "gives the same tasks over and over, to try out a coordinator");

}  // namespace
}  // namespace ding
