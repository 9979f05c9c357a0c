#include "ding_worker/coordinator/state/doubted_evaluations.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/log.h"

namespace ding {
namespace {

// How far a return may be beyond its bounds, because it is a sum of rounded rewards.
constexpr double kRounding = 1e-3;

double MeanReturn(const CollectorFinished& result) {
  return std::accumulate(result.episode_return().begin(), result.episode_return().end(), 0.0) /
         result.episode_return_size();
}

}  // namespace

bool DoubtedEvaluations::IsPossible(const CollectorFinished& result) const {
  if (result.episode_return_size() == 0) return true;
  const double mean = MeanReturn(result);
  const auto margin = [](double bound) { return kRounding * std::max(1.0, std::abs(bound)); };
  return mean >= min_return_ - margin(min_return_) && mean <= max_return_ + margin(max_return_);
}

std::string DoubtedEvaluations::DescribeImpossible(const DoubtedEvaluation& evaluation) const {
  return absl::StrCat(evaluation.name, " says that ", evaluation.task.task_id(),
                      " has a mean return of ", MeanReturn(evaluation.result),
                      ", which does not count: the env's reward bounds allow ", min_return_, " to ",
                      max_return_,
                      " (an env with a return of its own leaves them open in its EnvSpec)");
}

void DoubtedEvaluations::Ask(DoubtedEvaluation evaluation, const PolicyVersion* policy) {
  CollectorTask task = evaluation.task;
  task.set_task_id(absl::StrCat(evaluation.task.task_id(), "_again_", ++asked_));
  task.clear_policy();
  if (policy != nullptr) *task.mutable_policy() = *policy;
  for (TaskPlayer& player : *task.mutable_player()) {
    if (!player.update_policy()) continue;
    player.clear_policy();
    if (policy != nullptr) *player.mutable_policy() = *policy;
  }
  DING_LOG(INFO) << evaluation.name << " says that " << evaluation.task.task_id()
                 << " has a mean return of " << MeanReturn(evaluation.result)
                 << ": another collector evaluates version " << evaluation.result.policy_version()
                 << " again";
  evaluations_[task.task_id()] = std::move(evaluation);
  waiting_tasks_.push_back(std::move(task));
}

const DoubtedEvaluation* DoubtedEvaluations::Find(const std::string& witness_task_id) const {
  const auto found = evaluations_.find(witness_task_id);
  return found == evaluations_.end() ? nullptr : &found->second;
}

std::optional<DoubtedEvaluation> DoubtedEvaluations::Take(const std::string& witness_task_id) {
  const auto found = evaluations_.find(witness_task_id);
  if (found == evaluations_.end()) return std::nullopt;
  DoubtedEvaluation evaluation = std::move(found->second);
  evaluations_.erase(found);
  return evaluation;
}

std::vector<DoubtedEvaluation> DoubtedEvaluations::TakeAll() {
  std::vector<DoubtedEvaluation> all;
  for (auto& [task_id, evaluation] : evaluations_) all.push_back(std::move(evaluation));
  evaluations_.clear();
  waiting_tasks_.clear();
  return all;
}

std::vector<CollectorTask> DoubtedEvaluations::TakeWaitingTasks() {
  return std::exchange(waiting_tasks_, {});
}

void DoubtedEvaluations::WaitAgain(CollectorTask task) {
  waiting_tasks_.push_back(std::move(task));
}

bool DoubtedEvaluations::HasWaitingTask(
    absl::FunctionRef<bool(const CollectorTask& task)> matches) const {
  return std::any_of(waiting_tasks_.begin(), waiting_tasks_.end(), matches);
}

DoubtedEvaluations::Verdict DoubtedEvaluations::Compare(const DoubtedEvaluation& evaluation,
                                                        const std::string& witness_name,
                                                        const CollectorFinished& witness_result,
                                                        bool would_converge) const {
  const auto may_be_believed = [this](const CollectorFinished& result) {
    return result.episode_return_size() > 0 && IsPossible(result);
  };
  const bool first = may_be_believed(evaluation.result);
  const bool second = may_be_believed(witness_result);
  Verdict verdict;
  const bool neither = !first && !second && witness_result.episode_return_size() > 0;
  if (!would_converge || first != second || neither) {
    const std::string says = witness_result.episode_return_size() == 0
                                 ? "nothing"
                                 : absl::StrCat(MeanReturn(witness_result));
    verdict.warning =
        absl::StrCat(evaluation.name, " says that ", evaluation.task.task_id(),
                     " has a mean return of ", MeanReturn(evaluation.result), ", and ",
                     witness_name, ", which has evaluated the same policy, ", says,
                     neither           ? ": neither is possible, and neither counts"
                     : first == second ? ": the lower one counts"
                                       : ": the possible one counts");
  }
  // An impossible result does not count even if a witness confirms it: both workers may be one process, which has
  // joined again under another name.
  if (neither || witness_result.episode_return_size() == 0) return verdict;
  const bool first_counts =
      first != second ? first : MeanReturn(evaluation.result) <= MeanReturn(witness_result);
  verdict.result = first_counts ? evaluation.result : witness_result;
  return verdict;
}

void DoubtedEvaluations::Save(std::vector<JournalRecord>* records) const {
  for (const auto& [task_id, evaluation] : evaluations_) {
    *records->emplace_back().mutable_collector_task() = evaluation.task;
  }
}

}  // namespace ding
