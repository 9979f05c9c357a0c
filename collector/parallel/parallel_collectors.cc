#include "ding_worker/collector/parallel/parallel_collectors.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Returns the problems of players and games.
std::vector<std::string> GameProblems(const ParallelCollectorTask& task,
                                      const ParallelCollectorParts& parts) {
  std::vector<std::string> problems;
  const size_t expected = task.eval_flag ? 0 : 2;
  if (parts.players.size() != expected) {
    problems.push_back(absl::StrCat(parts.players.size(), " players in ",
                                    task.eval_flag ? "an evaluation" : "a collecting task",
                                    ", expected ",
                                    task.eval_flag ? "one policy that evaluates" : "2"));
  }
  if (!task.eval_flag &&
      std::none_of(parts.players.begin(), parts.players.end(),
                   [](const ParallelPlayer& player) { return player.updates; })) {
    problems.push_back("no player learns, expected at least one");
  }
  if (task.home_seat != 0 && task.home_seat != 1) {
    problems.push_back(absl::StrCat("home_seat is ", task.home_seat, ", expected 0 or 1"));
  }
  // An evaluator plays in the envs that it was made for.
  if (parts.env == nullptr || (task.eval_flag && parts.evaluator != nullptr)) return problems;
  const int players = task.eval_flag ? 1 : 2;
  if (parts.env->env_spec().players != players) {
    problems.push_back(absl::StrCat("env '", parts.env->env_spec().name, "' has ",
                                    parts.env->env_spec().players, " players, expected ", players,
                                    task.eval_flag ? ": one that plays the opponent itself" : ""));
  }
  return problems;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ZerglingParallelCollector>> ZerglingParallelCollector::Create(
    const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
    ComponentDeps deps) {
  std::vector<ParallelPlayer> players = parts.players;
  if (players.empty()) players.push_back({parts.collect_mode, /*updates=*/true});
  DING_ASSIGN_OR_RETURN(
      Setup setup, Prepare(options, std::move(task), parts, std::move(deps), std::move(players)));
  return absl::WrapUnique(new ZerglingParallelCollector(std::move(setup)));
}

absl::StatusOr<std::unique_ptr<MarineParallelCollector>> MarineParallelCollector::Create(
    const Options& options, ParallelCollectorTask task, const ParallelCollectorParts& parts,
    ComponentDeps deps) {
  const std::vector<std::string> problems = GameProblems(task, parts);
  // An evaluation has one seat only.
  if (task.eval_flag) task.home_seat = 0;
  DING_ASSIGN_OR_RETURN(Setup setup, Prepare(options, std::move(task), parts, std::move(deps),
                                             parts.players, /*is_game=*/true, problems));
  return absl::WrapUnique(new MarineParallelCollector(std::move(setup)));
}

}  // namespace ding
