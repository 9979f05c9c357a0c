// Evaluations whose result counts only if another worker, a witness, confirms it.
//
//     Ask ──► task of a witness ──TakeWaitingTasks──► it runs ──Take──► Compare: which one counts
//                   ▲                     │
//                   └──────WaitAgain──────┘ no worker is free
//
// Evaluations of one version of a policy have the same seeds, so that two honest workers report the
// same returns.
//
// Ownership: a value of the coordinator, which decides which evaluations are doubted.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COORDINATOR_STATE_DOUBTED_EVALUATIONS_H_
#define DING_WORKER_COORDINATOR_STATE_DOUBTED_EVALUATIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ding_worker/coordinator/journal/journal.pb.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

struct DoubtedEvaluation {
  uint32_t worker = 0;  // reports the result
  std::string name;     // the name of that worker
  CollectorTask task;   // the commander made it
  CollectorFinished result;
};

class DoubtedEvaluations {
 public:
  struct Verdict {
    std::optional<CollectorFinished> result;  // the result that counts; none: neither does
    std::string warning;                      // empty: the two agree
  };

  // The rewards of the env allow mean returns from `min_return` to `max_return`.
  DoubtedEvaluations(double min_return, double max_return)
      : min_return_(min_return), max_return_(max_return) {}

  // Returns whether the env's rewards allow the mean return; true if the result has no episode.
  bool IsPossible(const CollectorFinished& result) const;
  // Returns a sentence about an evaluation that is not possible, and that nobody can confirm.
  std::string DescribeImpossible(const DoubtedEvaluation& evaluation) const;

  // Makes a task for a witness, which evaluates `policy` again. If that version is not stored any more, pass
  // null: the witness evaluates the newest one.
  void Ask(DoubtedEvaluation evaluation, const PolicyVersion* policy);
  // Returns the evaluation that this task of a witness confirms; null or none if it is no task of a witness.
  const DoubtedEvaluation* Find(const std::string& witness_task_id) const;
  std::optional<DoubtedEvaluation> Take(const std::string& witness_task_id);
  std::vector<DoubtedEvaluation> TakeAll();

  // Returns the tasks of witnesses that no worker has, in the order in which they were made.
  std::vector<CollectorTask> TakeWaitingTasks();
  void WaitAgain(CollectorTask task);
  bool HasWaitingTask(absl::FunctionRef<bool(const CollectorTask& task)> matches) const;

  // Returns which of the two results counts: the possible one, or the lower one if both are possible;
  // none if neither is. `would_converge` says that the result of the witness would end the run, too.
  Verdict Compare(const DoubtedEvaluation& evaluation, const std::string& witness_name,
                  const CollectorFinished& witness_result, bool would_converge) const;

  // Appends a record for each task of the commander whose result is doubted.
  void Save(std::vector<JournalRecord>* records) const;

 private:
  const double min_return_;
  const double max_return_;
  int64_t asked_ = 0;                                     // how many tasks were made
  std::map<std::string, DoubtedEvaluation> evaluations_;  // by the id of the task of the witness
  std::vector<CollectorTask> waiting_tasks_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_STATE_DOUBTED_EVALUATIONS_H_
