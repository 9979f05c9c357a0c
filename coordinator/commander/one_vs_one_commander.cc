#include "ding_worker/coordinator/commander/one_vs_one_commander.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"

namespace ding {
namespace {

// An evaluation is won with more than this share of its games.
constexpr double kWinShare = 0.7;
// The scope of the part of the saved state that SoloCommander writes.
constexpr char kTasksScope[] = "tasks";

std::vector<std::string> OpponentProblems(const std::vector<EvalOpponent>& opponents) {
  std::vector<std::string> problems;
  if (opponents.empty()) problems.push_back("no eval_opponent, expected one at least");
  std::set<std::string> names;
  for (const EvalOpponent& opponent : opponents) {
    if (!opponent.name.empty() && names.insert(opponent.name).second) continue;
    problems.push_back(
        absl::StrCat("eval_opponent '", opponent.name, "', expected a name that no other has"));
  }
  return problems;
}

bool IsWon(const EvalOpponent& opponent, const CollectorFinished& info) {
  if (opponent.win_return.has_value()) {
    return info.episode_return_size() > 0 && EvalScore(info) >= *opponent.win_return;
  }
  const auto wins = std::count(info.game_result().begin(), info.game_result().end(),
                               static_cast<int>(TaskGameResult::WINS));
  return static_cast<double>(wins) > kWinShare * info.game_result_size();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OneVsOneCommander>> OneVsOneCommander::Create(
    const Options& options, CommandMode* policy, const ComponentDeps& deps) {
  std::vector<std::string> problems = SoloCommander::Problems(options.solo);
  for (const std::vector<std::string>& more :
       {OneVsOneLeague::Problems(options.league), OpponentProblems(options.eval_opponents)}) {
    problems.insert(problems.end(), more.begin(), more.end());
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, "one_vs_one commander"));
  DING_ASSIGN_OR_RETURN(OneVsOneLeague league, OneVsOneLeague::Create(options.league, deps.seed));
  return absl::WrapUnique(new OneVsOneCommander(options, std::move(league), policy, deps));
}

OneVsOneCommander::OneVsOneCommander(const Options& options, OneVsOneLeague league,
                                     CommandMode* policy, const ComponentDeps& deps)
    : SoloCommander(options.solo, policy, deps),
      league_(std::move(league)),
      opponents_(options.eval_opponents),
      metrics_(deps.metrics) {}

std::optional<CollectorTask> OneVsOneCommander::GetCollectorTask() {
  std::optional<CollectorTask> task = SoloCommander::GetCollectorTask();
  if (!task.has_value()) return std::nullopt;
  task->set_task_id(
      absl::StrCat(task->eval_flag() ? "evaluator_task_" : "collector_task_", task->number()));
  AddPlayers(&*task);
  return task;
}

void OneVsOneCommander::AddPlayers(CollectorTask* task) {
  TaskPlayer* const home = task->add_player();
  home->set_update_policy(true);
  if (task->has_policy()) *home->mutable_policy() = task->policy();
  if (task->eval_flag()) {
    home->set_player_id(league_.active().id());
    task->set_eval_opponent(eval_opponent().name);
    return;
  }
  const OneVsOneLeague::Job job = league_.GetJob();
  home->set_player_id(job.home_id);
  TaskPlayer* const away = task->add_player();
  away->set_player_id(job.away_id);
  away->set_update_policy(job.self_play());
  if (!job.self_play()) *away->mutable_policy() = job.away_policy;
  task->set_home_seat(static_cast<int>(task->number() % 2));
}

std::optional<LearnerTask> OneVsOneCommander::GetLearnerTask() {
  std::optional<LearnerTask> task = SoloCommander::GetLearnerTask();
  if (task.has_value()) task->set_player_id(league_.active().id());
  return task;
}

bool OneVsOneCommander::WouldConverge(const CollectorTask& task,
                                      const CollectorFinished& info) const {
  return level_ + 1 == opponents_.size() && task.eval_opponent() == eval_opponent().name &&
         IsWon(eval_opponent(), info) && SoloCommander::WouldConverge(task, info);
}

bool OneVsOneCommander::FinishCollectorTask(const CollectorTask& task,
                                            const CollectorFinished& info) {
  beat_hardest_ = false;
  const size_t level = level_;
  if (task.eval_flag()) {
    Judge(task, info);
  } else {
    Report(task, info);
  }
  const bool converged = SoloCommander::FinishCollectorTask(task, info);
  // The best result so far was against an easier opponent, and cannot be compared with the next
  // ones.
  if (level_ > level) ForgetBest();
  return converged;
}

void OneVsOneCommander::Judge(const CollectorTask& evaluation, const CollectorFinished& info) {
  // An evaluation that began before the difficulty was raised says nothing about the opponent whose
  // turn it is now.
  if (evaluation.eval_opponent() != eval_opponent().name || !IsWon(eval_opponent(), info)) return;
  beat_hardest_ = level_ + 1 == opponents_.size();
  if (beat_hardest_) return;
  ++level_;
  DING_LOG(INFO) << evaluation.eval_opponent() << " is beaten; evaluations play "
                 << eval_opponent().name << " from now on";
}

void OneVsOneCommander::Report(const CollectorTask& task, const CollectorFinished& info) {
  // A task that GetCollectorTask() did not give has no players.
  if (task.player_size() < 2) return;
  std::vector<TaskGameResult> results;
  for (const int result : info.game_result()) {
    results.push_back(static_cast<TaskGameResult>(result));
  }
  const std::string& home = task.player(0).player_id();
  const std::string& away = task.player(1).player_id();
  league_.FinishJob(home, away, results);
  if (home != away) games_with_historical_ += info.game_result_size();
}

std::string OneVsOneCommander::FinishLearnerTask(const LearnerTask& task) {
  // The successor of this task learns another policy.
  if (task.policy_id() == current_policy_id()) league_.NotePolicy(PolicyVersion());
  return SoloCommander::FinishLearnerTask(task);
}

void OneVsOneCommander::PolicyPublished(const PolicyVersion& version) {
  SoloCommander::PolicyPublished(version);
  if (version.policy_id() == current_policy_id()) league_.NotePolicy(version);
}

void OneVsOneCommander::UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) {
  SoloCommander::UpdateLearnerInfo(task, info);
  if (task.policy_id() != current_policy_id()) return;
  if (!league_.NoteTrainStep(info.learner_step())) return;
  ++snapshots_;
  MeasureLeague();
}

void OneVsOneCommander::MeasureLeague() const {
  const std::vector<double> rates = league_.WinRates();
  const NamedValues metrics = {{"historical_players", static_cast<double>(rates.size())},
                               {"min_win_rate", *std::min_element(rates.begin(), rates.end())},
                               {"rating_mu", league_.active().rating().mu()},
                               {"rating_sigma", league_.active().rating().sigma()}};
  const int64_t train_step = league_.active().train_step();
  DING_LOG(INFO) << "league: " << league_.historical().rbegin()->id()
                 << " is a historical player: " << MetricsLine(metrics);
  WriteIterMetrics(metrics, "league", train_step, metrics_.get());
}

void OneVsOneCommander::AddStatus(RunStatus* status) const {
  SoloCommander::AddStatus(status);
  LeagueStatus* const league = status->mutable_league();
  const std::vector<double> rates = league_.WinRates();
  league->set_player_id(league_.active().id());
  league->set_historical_players(static_cast<int>(rates.size()));
  league->set_snapshots(snapshots_);
  league->set_games_with_historical(games_with_historical_);
  if (!rates.empty()) league->set_min_win_rate(*std::min_element(rates.begin(), rates.end()));
  league->set_eval_opponent(eval_opponent().name);
  league->set_rating(league_.active().rating().mu());
  league->set_rating_sigma(league_.active().rating().sigma());
}

absl::Status OneVsOneCommander::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteString("eval_opponent", eval_opponent().name));
  DING_RETURN_IF_ERROR(writer->WriteInt("snapshots", snapshots_));
  DING_RETURN_IF_ERROR(writer->WriteInt("games_with_historical", games_with_historical_));
  ScopedStateWriter tasks(writer, kTasksScope);
  DING_RETURN_IF_ERROR(SoloCommander::SaveState(&tasks));
  return league_.SaveState(writer);
}

absl::Status OneVsOneCommander::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::string name, reader->ReadString("eval_opponent"));
  const auto found =
      std::find_if(opponents_.begin(), opponents_.end(),
                   [&name](const EvalOpponent& opponent) { return opponent.name == name; });
  if (found == opponents_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("saved eval_opponent is '", name,
                                                   "', expected one of the ", opponents_.size(),
                                                   " opponents of this run"));
  }
  DING_ASSIGN_OR_RETURN(const int64_t snapshots, reader->ReadCount("snapshots"));
  DING_ASSIGN_OR_RETURN(const int64_t games, reader->ReadCount("games_with_historical"));
  OneVsOneLeague league = league_;
  DING_RETURN_IF_ERROR(league.LoadState(reader));
  ScopedStateReader tasks(reader, kTasksScope);
  DING_RETURN_IF_ERROR(SoloCommander::LoadState(&tasks));
  league_ = std::move(league);
  level_ = static_cast<size_t>(found - opponents_.begin());
  snapshots_ = snapshots;
  games_with_historical_ = games;
  return absl::OkStatus();
}

}  // namespace ding
