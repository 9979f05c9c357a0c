// Registers OneVsOneCommander as "one_vs_one".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/one_vs_one_commander.h"
#include "ding_worker/coordinator/commander/solo_options.h"
#include "ding_worker/coordinator/coordinator.pb.h"

namespace ding {
namespace {

constexpr char kName[] = "one_vs_one";
// Two tasks at a time, so that collecting goes on while an evaluation runs.
constexpr int kTaskSpace = 2;

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateOneVsOneCommander(
    const CommanderConfig& config, const CommanderDeps& deps) {
  OneVsOneCommander::Options options;
  options.solo = ToSoloOptions(config, deps);
  if (!config.has_collector_task_space()) options.solo.collector_task_space = kTaskSpace;
  options.league = config.league();
  if (!deps.eval_opponents.empty()) options.eval_opponents = deps.eval_opponents;
  return OneVsOneCommander::Create(options, deps.policy, deps);
}

CommanderDescriptor Descriptor() {
  CommanderDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.default_config.set_collector_task_space(kTaskSpace);
  descriptor.plays_games = true;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateOneVsOneCommander;
  return descriptor;
}

DING_REGISTER(CommanderRegistry(), kName, Descriptor(),
              "trains one policy in games of two, against itself and its past versions");

}  // namespace
}  // namespace ding
