// Registers SoloCommander as the commander "solo", and OneVsOneCommander as "one_vs_one".

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/one_vs_one_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/coordinator/commander/solo_options.h"
#include "ding_worker/coordinator/coordinator.pb.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateSoloCommander(const CommanderConfig& config,
                                                                   const NoParams& /*params*/,
                                                                   const CommanderDeps& deps) {
  SoloCommander::Options options = ToSoloOptions(config, deps);
  options.has_opponent = deps.has_opponent;
  options.opponent = deps.opponent;
  if (deps.has_opponent) options.learner_task_space = 2;
  return SoloCommander::Create(options, deps.policy, deps);
}

DING_REGISTER(CommanderRegistry(), "solo",
              (CommanderDescriptor{CreateSoloCommander, /*plays_games=*/false,
                                   /*for_data_sets=*/true, /*for_lockstep=*/true,
                                   /*for_opponent=*/true}),
              "trains one policy, with an evaluation every eval_interval");

// Two tasks at a time, so that collecting goes on while an evaluation runs.
constexpr int kTaskSpace = 2;

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateOneVsOneCommander(
    const CommanderConfig& config, const NoParams& /*params*/, const CommanderDeps& deps) {
  OneVsOneCommander::Options options;
  options.solo = ToSoloOptions(config, deps);
  if (!config.has_collector_task_space()) options.solo.collector_task_space = kTaskSpace;
  options.league = config.league();
  if (!deps.eval_opponents.empty()) options.eval_opponents = deps.eval_opponents;
  return OneVsOneCommander::Create(options, deps.policy, deps);
}

DING_REGISTER(CommanderRegistry(), "one_vs_one",
              (CommanderDescriptor{CreateOneVsOneCommander, /*plays_games=*/true}),
              "trains one policy in games of two, against itself and its past versions");

}  // namespace
}  // namespace ding
