// Results that count, and the witnesses of those that are doubted.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/log_event.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/task_buffer.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/stopper.h"

namespace ding {
namespace internal_coordinator {
namespace {

// The time between two questions to the stoppers, while no evaluation ends and would ask them.
constexpr absl::Duration kAskStoppersPeriod = absl::Seconds(1);

// How far a return may be beyond its bounds, because it is a sum of rounded rewards.
constexpr double kRounding = 1e-3;

// `evaluation` may be null.
void AskStoppers(RunState* run, const Evaluation* evaluation) {
  if (run->ended || run->stoppers.empty()) return;
  RunMoment now;
  now.env_step = run->EnvSteps();
  now.train_iter = run->progress.train_iter();
  now.elapsed = run->progress.Elapsed();
  now.evaluation = evaluation;
  const absl::Status asked = run->stoppers.Ask(now);
  run->records.NoteState();
  if (!asked.ok()) End(run, asked, "a stopper failed");
}

// Passes the result of an evaluation to the stoppers and to the hooks of the policy's learner.
void TellOfEvaluation(RunState* run, const CollectorTask& task, const CollectorFinished& info) {
  if (info.episode_return_size() == 0 || task.has_confirmation()) return;
  Evaluation evaluation = EvaluationOf(info);
  evaluation.env_step = run->EnvSteps();
  AskStoppers(run, &evaluation);
  for (const auto& [id, buffer] : run->buffers) {
    const Worker* const learner = run->LearnerOf(*buffer);
    if (learner == nullptr || learner->task->learner().policy_id() != task.policy_id()) continue;
    CoordinatorMessage message;
    EvaluationResult* const result = message.mutable_evaluation_result();
    result->set_task_id(learner->task->id());
    result->set_train_iter(evaluation.train_iter);
    result->set_env_step(evaluation.env_step);
    *result->mutable_episode_return() = info.episode_return();
    if (info.has_eval_score()) result->set_eval_score(info.eval_score());
    *result->mutable_info() = info.info();
    run->Send(learner->id, std::move(message));
  }
}

// Returns whether the env's rewards allow the mean return; true if the result has no episode.
bool IsPossible(const RunState& run, const CollectorFinished& result) {
  if (result.episode_return_size() == 0) return true;
  const double mean = MeanReturn(result.episode_return());
  const auto margin = [](double bound) { return kRounding * std::max(1.0, std::abs(bound)); };
  return mean >= run.options.min_return - margin(run.options.min_return) &&
         mean <= run.options.max_return + margin(run.options.max_return);
}

std::string Found(const CollectorTask& task, const CollectorFinished& result) {
  return absl::StrCat(
      task.task_id(), " has a mean return of ", MeanReturn(result.episode_return()),
      result.has_eval_score() ? absl::StrCat(" and a score of ", result.eval_score()) : "");
}

std::string Says(const std::string& name, const CollectorTask& task,
                 const CollectorFinished& result) {
  return absl::StrCat(name, " says that ", Found(task, result));
}

// The result is not possible, and no other worker can confirm it. It does not count.
void RefuseResult(RunState* run, const std::string& name, const CollectorTask& task,
                  const CollectorFinished& result) {
  run->Warn(absl::StrCat(Says(name, task, result),
                         ", which does not count: the env's reward bounds allow ",
                         run->options.min_return, " to ", run->options.max_return,
                         " (an env with a return of its own leaves them open in its EnvSpec)"));
  NotifyFail(run, task);
}

// Lets another worker evaluate the same version of the policy; the newest one if that version is
// not stored any more. Evaluations of one version have the same seeds, so two honest workers report
// the same returns.
void AskWitness(RunState* run, DoubtedEvaluation doubted) {
  const PolicyVersion* const evaluated =
      run->policies.FindStored(doubted.task.policy_id(), doubted.result.policy_version());
  CollectorTask again = doubted.task;
  again.set_task_id(absl::StrCat(doubted.task.task_id(), "_again_", ++run->witnesses));
  again.clear_policy();
  if (evaluated != nullptr) *again.mutable_policy() = *evaluated;
  for (TaskPlayer& player : *again.mutable_player()) {
    if (!player.update_policy()) continue;
    player.clear_policy();
    if (evaluated != nullptr) *player.mutable_policy() = *evaluated;
  }
  run->Log(LogSeverity::kInfo, absl::StrCat(Says(doubted.name, doubted.task, doubted.result),
                                            ": another collector evaluates version ",
                                            doubted.result.policy_version(), " again"));
  doubted.witness_task = std::move(again);
  doubted.waits = true;
  run->doubted.push_back(std::move(doubted));
}

// Removes and returns the evaluation that this task of a witness confirms; none if it is no task of
// a witness.
std::optional<DoubtedEvaluation> TakeDoubted(RunState* run, const std::string& task_id) {
  const auto found = std::find_if(
      run->doubted.begin(), run->doubted.end(),
      [&](const DoubtedEvaluation& one) { return one.witness_task.task_id() == task_id; });
  if (found == run->doubted.end()) return std::nullopt;
  DoubtedEvaluation doubted = std::move(*found);
  run->doubted.erase(found);
  return doubted;
}

// Counts the possible one of the two results, or the lower one if both are possible. An impossible
// result does not count even if a witness confirms it: both workers may be one process, which has
// joined again under another name.
void Settle(RunState* run, const DoubtedEvaluation& doubted, const std::string& witness,
            const CollectorFinished& info) {
  const bool first = doubted.result.episode_return_size() > 0 && IsPossible(*run, doubted.result);
  const bool second = info.episode_return_size() > 0 && IsPossible(*run, info);
  const bool neither = !first && !second && info.episode_return_size() > 0;
  const double says = EvalScore(info);
  if (!run->commander.Call(&BaseCommander::WouldConverge, doubted.task, info) || first != second ||
      neither) {
    run->Warn(absl::StrCat(Says(doubted.name, doubted.task, doubted.result), ", and ", witness,
                           ", which has evaluated the same policy, ",
                           info.episode_return_size() == 0 ? "nothing" : absl::StrCat(says),
                           neither           ? ": neither is possible, and neither counts"
                           : first == second ? ": the lower one counts"
                                             : ": the possible one counts"));
  }
  if (neither || info.episode_return_size() == 0) return NotifyFail(run, doubted.task);
  const bool first_counts = first != second ? first : EvalScore(doubted.result) <= says;
  CountResult(run, doubted.task, first_counts ? doubted.result : info);
}

}  // namespace

void CountResult(RunState* run, const CollectorTask& task, const CollectorFinished& info) {
  run->records.NoteOver(task.task_id());
  if (task.eval_flag() && info.episode_return_size() > 0) {
    LogEvent& event = run->LogEventOf(EventKind::kEvaluation, task.task_id(), LogSeverity::kInfo,
                                      Found(task, info));
    event.train_iter = info.train_iter();
    event.value = EvalScore(info);
  }
  const bool converged = run->commander.Call(&BaseCommander::FinishCollectorTask, task, info);
  const std::optional<double> eval_value = run->commander.Call(&BaseCommander::last_eval_value);
  if (eval_value.has_value()) run->progress.NoteEvaluation(*eval_value);
  if (!converged) {
    if (task.eval_flag()) TellOfEvaluation(run, task, info);
    if (!run->stoppers.why().empty()) End(run, absl::OkStatus(), run->stoppers.why());
    return;
  }
  run->progress.set_converged();
  const absl::string_view value = info.has_eval_score() ? "score" : "mean return";
  std::string why =
      absl::StrCat("converged: ", value, " ", eval_value.value_or(0), " in ", task.task_id());
  if (task.has_confirmation() && info.episode_return_size() >= 2) {
    const ReturnEstimate found = EstimateReturn(info.episode_return(), EvalScore(info));
    why = absl::StrCat("converged: the ", value, " of an evaluation was ", eval_value.value_or(0),
                       ", and the ", value, " of ", found.episodes, " fresh episodes ", found.mean,
                       " with a standard error of ", found.standard_error);
  }
  End(run, absl::OkStatus(), why);
}

void CountEvaluation(RunState* run, const Worker& worker, const CollectorTask& task,
                     const CollectorFinished& info) {
  const std::string name = worker.hello.name();
  const bool possible = IsPossible(*run, info);
  if (const std::optional<DoubtedEvaluation> first = TakeDoubted(run, task.task_id())) {
    Settle(run, *first, name, info);
  } else if (possible && !run->commander.Call(&BaseCommander::WouldConverge, task, info)) {
    CountResult(run, task, info);
  } else if (run->workers.HasOtherCollector(worker.id)) {
    DoubtedEvaluation doubted;
    doubted.worker = worker.id;
    doubted.name = name;
    doubted.task = task;
    doubted.result = info;
    AskWitness(run, std::move(doubted));
  } else if (possible) {
    CountResult(run, task, info);  // No other collector can be a witness.
  } else {
    RefuseResult(run, name, task, info);
  }
}

bool IsWitnessTask(const RunState& run, const std::string& task_id) {
  return std::any_of(run.doubted.begin(), run.doubted.end(), [&](const DoubtedEvaluation& one) {
    return one.witness_task.task_id() == task_id;
  });
}

absl::Duration TimeToAskStoppers(const RunState& run) {
  return run.stoppers.empty() ? absl::InfiniteDuration() : kAskStoppersPeriod;
}

void AskStoppersIfDue(RunState* run) {
  if (run->stoppers.empty() || run->ended) return;
  if (run->asked_stoppers_nanos.has_value() &&
      run->Elapsed(*run->asked_stoppers_nanos) < kAskStoppersPeriod) {
    return;
  }
  run->asked_stoppers_nanos = run->now();
  AskStoppers(run, /*evaluation=*/nullptr);
  if (!run->stoppers.why().empty()) End(run, absl::OkStatus(), run->stoppers.why());
}

void AssignWitnesses(RunState* run) {
  std::vector<std::string> waiting;
  for (const DoubtedEvaluation& doubted : run->doubted) {
    if (doubted.waits) waiting.push_back(doubted.witness_task.task_id());
  }
  for (const std::string& task_id : waiting) {
    std::optional<DoubtedEvaluation> doubted = TakeDoubted(run, task_id);
    if (!doubted.has_value()) continue;  // The run has ended meanwhile.
    if (run->workers.HasOtherCollector(doubted->worker) &&
        run->buffers.count(doubted->task.buffer_id()) > 0) {
      doubted->waits = !StartCollectorTask(run, doubted->witness_task, doubted->worker);
      run->doubted.push_back(*std::move(doubted));
    } else if (IsPossible(*run, doubted->result)) {
      CountResult(run, doubted->task, doubted->result);
    } else {
      NotifyFail(run, doubted->task);
    }
  }
}

void GiveBack(RunState* run, const CollectorTask& task) {
  std::optional<DoubtedEvaluation> doubted = TakeDoubted(run, task.task_id());
  if (doubted.has_value() && !run->ended) {
    AskWitness(run, *std::move(doubted));
  } else {
    NotifyFail(run, doubted.has_value() ? doubted->task : task);
  }
}

void DropDoubted(RunState* run) {
  for (const DoubtedEvaluation& doubted : std::exchange(run->doubted, {})) {
    NotifyFail(run, doubted.task);
  }
}

}  // namespace internal_coordinator
}  // namespace ding
