// Registers SoloCommander as the commander "solo", and OneVsOneCommander as "one_vs_one".

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/one_vs_one_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/commander/solo_options.h"
#include "ding_worker/coordinator/coordinator.pb.h"

namespace ding {
namespace {

constexpr char kSolo[] = "solo";

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateSoloCommander(const CommanderConfig& config,
                                                                   const CommanderDeps& deps) {
  SoloCommander::Options options = ToSoloOptions(config, deps);
  options.has_opponent = deps.has_opponent;
  options.opponent = deps.opponent;
  if (deps.has_opponent) options.learner_task_space = 2;
  return SoloCommander::Create(options, deps.policy, deps);
}

CommanderDescriptor SoloDescriptor() {
  CommanderDescriptor descriptor;
  descriptor.name = kSolo;
  descriptor.default_config.set_type(kSolo);
  descriptor.for_data_sets = true;
  descriptor.for_lockstep = true;
  descriptor.for_opponent = true;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateSoloCommander;
  return descriptor;
}

DING_REGISTER(CommanderRegistry(), kSolo, SoloDescriptor(),
              "trains one policy, with an evaluation every eval_interval");

constexpr char kOneVsOne[] = "one_vs_one";
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

CommanderDescriptor OneVsOneDescriptor() {
  CommanderDescriptor descriptor;
  descriptor.name = kOneVsOne;
  descriptor.default_config.set_type(kOneVsOne);
  descriptor.default_config.set_collector_task_space(kTaskSpace);
  descriptor.plays_games = true;
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateOneVsOneCommander;
  return descriptor;
}

DING_REGISTER(CommanderRegistry(), kOneVsOne, OneVsOneDescriptor(),
              "trains one policy in games of two, against itself and its past versions");

}  // namespace
}  // namespace ding
