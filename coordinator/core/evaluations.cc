// Results that count, and the witnesses of those that are doubted.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/trained_policy.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/core/transitions.h"
#include "ding_worker/coordinator/state/doubted_evaluations.h"
#include "ding_worker/coordinator/state/worker_roster.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/evaluation.h"
#include "ding_worker/learner/stopper.h"

namespace ding {
namespace internal_coordinator {
namespace {

// The time between two questions to the stoppers, while no evaluation ends and would ask them.
constexpr absl::Duration kAskStoppersPeriod = absl::Seconds(1);

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
  Evaluation evaluation;
  evaluation.train_iter = info.train_iter();
  evaluation.env_step = run->EnvSteps();
  evaluation.mean_return = MeanReturn(info.episode_return());
  evaluation.episode_return.assign(info.episode_return().begin(), info.episode_return().end());
  AskStoppers(run, &evaluation);
  for (const auto& [id, worker] : run->workers) {
    if (!worker.task.has_value() || worker.task->state.kind != Hello::LEARNER) continue;
    if (worker.task->learner.policy_id() != task.policy_id()) continue;
    CoordinatorMessage message;
    EvaluationResult* const result = message.mutable_evaluation_result();
    result->set_task_id(worker.task->state.task_id);
    result->set_train_iter(evaluation.train_iter);
    result->set_env_step(evaluation.env_step);
    *result->mutable_episode_return() = info.episode_return();
    run->Send(id, message);
  }
}

// Lets another worker evaluate the same version of the policy.
void AskWitness(RunState* run, DoubtedEvaluation doubted) {
  const PolicyVersion* const evaluated =
      run->policies.FindStored(doubted.task.policy_id(), doubted.result.policy_version());
  run->doubted.Ask(std::move(doubted), evaluated);
}

void Settle(RunState* run, const DoubtedEvaluation& doubted, const std::string& witness,
            const CollectorFinished& info) {
  const DoubtedEvaluations::Verdict verdict = run->doubted.Compare(
      doubted, witness, info, run->commander->WouldConverge(doubted.task, info));
  if (!verdict.warning.empty()) run->Warn(verdict.warning);
  if (verdict.result.has_value()) {
    CountResult(run, doubted.task, *verdict.result);
  } else {
    GiveBack(run, doubted.task);
  }
}

}  // namespace

void CountResult(RunState* run, const CollectorTask& task, const CollectorFinished& info) {
  run->records.NoteOver(task.task_id());
  const bool converged = run->commander->FinishCollectorTask(task, info);
  const std::optional<double> eval_value = run->commander->last_eval_value();
  if (eval_value.has_value()) run->progress.NoteEvaluation(*eval_value);
  if (!converged) {
    if (task.eval_flag()) TellOfEvaluation(run, task, info);
    if (!run->stoppers.why().empty()) End(run, absl::OkStatus(), run->stoppers.why());
    return;
  }
  run->progress.set_converged();
  std::string why =
      absl::StrCat("converged: mean return ", eval_value.value_or(0), " in ", task.task_id());
  if (task.has_confirmation() && info.episode_return_size() >= 2) {
    const ReturnEstimate found =
        EstimateReturn(info.episode_return(), MeanReturn(info.episode_return()));
    why = absl::StrCat("converged: the mean return of an evaluation was ", eval_value.value_or(0),
                       ", and that of ", found.episodes, " fresh episodes ", found.mean,
                       " with a standard error of ", found.standard_error);
  }
  End(run, absl::OkStatus(), why);
}

void CountEvaluation(RunState* run, uint32_t worker, const CollectorTask& task,
                     const CollectorFinished& info) {
  const std::string name = run->workers.Find(worker)->hello.name();
  const bool possible = run->doubted.IsPossible(info);
  if (const std::optional<DoubtedEvaluation> doubted = run->doubted.Take(task.task_id())) {
    Settle(run, *doubted, name, info);
  } else if (possible && !run->commander->WouldConverge(task, info)) {
    CountResult(run, task, info);
  } else if (run->workers.HasOtherCollector(worker)) {
    AskWitness(run, {worker, name, task, info});
  } else if (possible) {
    CountResult(run, task, info);  // No other collector can be a witness.
  } else {
    run->Warn(run->doubted.DescribeImpossible({worker, name, task, info}));
    run->records.NoteOver(task.task_id());
    run->commander->NotifyFailCollectorTask(task);
  }
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
  for (const CollectorTask& task : run->doubted.TakeWaitingTasks()) {
    const DoubtedEvaluation* const doubted = run->doubted.Find(task.task_id());
    if (doubted == nullptr) continue;  // It was forgotten at the end of the run.
    if (run->workers.HasOtherCollector(doubted->worker) &&
        run->buffers.count(task.buffer_id()) > 0) {
      if (!StartCollectorTask(run, task, doubted->worker)) run->doubted.WaitAgain(task);
      continue;
    }
    const DoubtedEvaluation alone = *run->doubted.Take(task.task_id());
    if (run->doubted.IsPossible(alone.result)) {
      CountResult(run, alone.task, alone.result);
    } else {
      run->records.NoteOver(alone.task.task_id());
      run->commander->NotifyFailCollectorTask(alone.task);
    }
  }
}

void GiveBack(RunState* run, const CollectorTask& task) {
  std::optional<DoubtedEvaluation> doubted = run->doubted.Take(task.task_id());
  if (doubted.has_value() && !run->ended) {
    AskWitness(run, *std::move(doubted));
    return;
  }
  const CollectorTask& over = doubted.has_value() ? doubted->task : task;
  run->records.NoteOver(over.task_id());
  run->commander->NotifyFailCollectorTask(over);
}

void DropDoubted(RunState* run) {
  for (const DoubtedEvaluation& doubted : run->doubted.TakeAll()) {
    run->records.NoteOver(doubted.task.task_id());
    run->commander->NotifyFailCollectorTask(doubted.task);
  }
}

}  // namespace internal_coordinator
}  // namespace ding
