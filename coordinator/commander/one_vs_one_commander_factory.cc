// Registers OneVsOneCommander as "one_vs_one".
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/one_vs_one_commander.h"
#include "ding_worker/coordinator/commander/solo_options.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/coordinator/league/league.h"
#include "ding_worker/coordinator/league/league.pb.h"

namespace ding {
namespace {

constexpr char kName[] = "one_vs_one";
// Two tasks at a time, so that collecting goes on while an evaluation runs.
constexpr int kTaskSpace = 2;

OneVsOneLeague::Options ToLeagueOptions(const LeagueConfig& config) {
  OneVsOneLeague::Options options;
  if (config.player_category_size() > 0) {
    options.player_category.assign(config.player_category().begin(),
                                   config.player_category().end());
  }
  options.naive_sp_players = config.active_players().naive_sp_player();
  const NaiveSpPlayerConfig& player = config.naive_sp_player();
  options.naive_sp_player.one_phase_step = player.one_phase_step();
  options.naive_sp_player.pfsp = player.branch_probs().pfsp();
  options.naive_sp_player.sp = player.branch_probs().sp();
  options.naive_sp_player.strong_win_rate = player.strong_win_rate();
  options.payoff.decay = config.payoff().decay();
  options.payoff.min_win_rate_games = config.payoff().min_win_rate_games();
  options.metric.mu = config.metric().mu();
  options.metric.sigma = config.metric().sigma();
  options.metric.beta = config.metric().beta();
  options.metric.tau = config.metric().tau();
  options.metric.draw_probability = config.metric().draw_probability();
  options.max_historical_players = config.max_historical_players();
  return options;
}

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateOneVsOneCommander(
    const CommanderConfig& config, const CommanderDeps& deps) {
  if (config.league().payoff().type() != "battle") {
    return absl::InvalidArgumentError(absl::StrCat(
        "league.payoff.type is '", config.league().payoff().type(), "', expected 'battle'"));
  }
  OneVsOneCommander::Options options;
  options.solo = ToSoloOptions(config, deps);
  if (!config.has_collector_task_space()) options.solo.collector_task_space = kTaskSpace;
  options.league = ToLeagueOptions(config.league());
  options.league.seed = deps.seed;
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
