// The interface of a commander (BaseCommander), parts of commanders (opponents, TaskSpace), and
// GuardedCommander, through which the coordinator calls a commander.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/evaluation.h"

namespace ding {

// Returns the mean of the returns. There must be at least one.
inline double MeanReturn(absl::Span<const double> returns) {
  return std::accumulate(returns.begin(), returns.end(), 0.0) / static_cast<double>(returns.size());
}

// Returns the score that an evaluator gave to an evaluation, or else the mean return.
inline double EvalScore(const CollectorFinished& info) {
  return info.has_eval_score() ? info.eval_score() : MeanReturn(info.episode_return());
}

// Returns the result of an evaluation in the form that stoppers take. There must be at least one
// episode. The env step of the result is not known.
inline Evaluation EvaluationOf(const CollectorFinished& info) {
  Evaluation evaluation;
  evaluation.train_iter = info.train_iter();
  evaluation.mean_return = EvalScore(info);
  evaluation.episode_return.assign(info.episode_return().begin(), info.episode_return().end());
  for (const InfoValue& value : info.info()) {
    evaluation.info[value.name()] = {value.mean(), value.count()};
  }
  return evaluation;
}

// Gives the task tensors for the forward pass of its policy (CollectMode::ForwardWith), in addition
// to its collect_setting. A task with more than 1 MiB of tensors is given back as invalid.
//   kInvalidArgument  a tensor has no elements
inline absl::Status SetCollectTensors(const TensorMap& tensors, CollectorTask* task) {
  DING_ASSIGN_OR_RETURN(const EncodedBatch encoded, EncodeState([&tensors](StateWriter* writer) {
                          return StateDict(tensors, "collect_tensors").SaveState(writer);
                        }));
  task->set_collect_tensors(encoded.ToString());
  return absl::OkStatus();
}

// Decides which tasks a parallel run needs next, and when it has converged.
//
//     Get...Task ──► task runs ──┬──► Finish...Task        the task has a result
//                                └──► NotifyFail...Task    the task has no result
//
// For each task that was given, exactly one of Finish and NotifyFail is called, once, unless the
// run ends before a worker has taken the task. The id of a task is never used again.
//
// Ownership: the coordinator owns it. A commander must not call the coordinator.
class BaseCommander {
 public:
  virtual ~BaseCommander() = default;

  // Return the next task, or nullopt if there is none now. The task counts as running until
  // Finish...Task() or NotifyFail...Task() is called.
  virtual std::optional<CollectorTask> GetCollectorTask() = 0;
  virtual std::optional<LearnerTask> GetLearnerTask() = 0;
  // If this returns an error, the coordinator ends the run with it.
  virtual absl::Status status() const { return absl::OkStatus(); }
  // The time after which there may be a new task although nothing has happened; infinite if there
  // will be none.
  virtual absl::Duration AskAgainAfter() const { return absl::InfiniteDuration(); }

  // Whether the task that sent `info` is finished. By default it is when the worker says so.
  virtual bool JudgeCollectorFinish(const CollectorFinished& info) const {
    return info.collector_done();
  }
  virtual bool JudgeLearnerFinish(const LearnerInfo& info) const { return info.learner_done(); }

  // Whether this result of an evaluation would end the run. If so, the coordinator first lets
  // another worker confirm the result, if there is one that can.
  virtual bool WouldConverge(const CollectorTask& /*task*/,
                             const CollectorFinished& /*info*/) const {
    return false;
  }
  // Takes the result of a task. Returns whether the run has converged; the commander gives no tasks
  // afterwards.
  virtual bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) = 0;
  // Notes that a task is done. Returns the id of its buffer, which the coordinator then closes.
  virtual std::string FinishLearnerTask(const LearnerTask& task) = 0;

  // Note that a task has no result, because no worker took it in time or its worker is gone.
  virtual void NotifyFailCollectorTask(const CollectorTask& task) = 0;
  virtual void NotifyFailLearnerTask(const LearnerTask& task) = 0;

  virtual void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) = 0;

  // Notes a version of a policy that a learner has stored.
  virtual void PolicyPublished(const PolicyVersion& /*version*/) {}
  // Whether to keep an outdated version. After the first `false` the coordinator may delete it.
  virtual bool KeepsPolicy(const PolicyVersion& /*version*/) const { return false; }

  // Called when a collector beyond the run's initial number has joined, or has left. Changes how
  // many collecting tasks may run; running tasks go on.
  virtual void IncreaseCollectorTaskSpace() = 0;
  virtual void DecreaseCollectorTaskSpace() = 0;

  // Save and load the state of the commander, for the successor of a dead coordinator. After the
  // load, the successor reports all running tasks as failed. It has no collectors at first, so the
  // task space comes from the options. Names and sizes must fit EncodeState(). The default has no
  // state.
  virtual absl::Status SaveState(StateWriter* /*writer*/) const { return absl::OkStatus(); }
  virtual absl::Status LoadState(StateReader* /*reader*/) { return absl::OkStatus(); }

  // The env steps of all finished collecting tasks.
  virtual int64_t total_collector_env_step() const = 0;
  // The mean return and the returns of the last evaluation; nullopt and empty if there was none.
  virtual std::optional<double> last_eval_value() const = 0;
  virtual std::vector<double> last_eval_returns() const = 0;
  // Adds the commander's fields to the status of the run.
  virtual void AddStatus(RunStatus* /*status*/) const {}
};

// The only opponent that DI-engine has.
inline constexpr char kRuleBasedOpponent[] = "RULE_BASED";

// LearnerTask.name of the opponent that learns. The ids of its policies begin with it.
inline constexpr char kOpponentTask[] = "opponent";

// An opponent in the evaluations of a league's policy: a level of difficulty.
struct EvalOpponent {
  std::string name;  // its name in the worker's config, not empty
  // The mean return from which an evaluation counts as won. Not set: an evaluation is won with more
  // than 70 % of its games.
  std::optional<double> win_return;
};

// Counts the running tasks of one kind, and bounds their number.
class TaskSpace {
 public:
  // Adds a sentence if `max` is out of range. `name` is the name of the option.
  static void AppendProblems(int max, absl::string_view name, std::vector<std::string>* problems) {
    if (max >= 1) return;
    problems->push_back(absl::StrCat(name, " is ", max, ", expected at least 1"));
  }

  explicit TaskSpace(int max) : max_(max) {}

  bool full() const { return running_ >= max_; }
  int running() const { return running_; }
  int max() const { return max_; }

  // Counts a task that begins. There must be room for it.
  void Take() {
    DING_CHECK(!full()) << running_ << " tasks run of at most " << max_;
    ++running_;
  }
  // Counts a task that is over.
  void Release() {
    DING_CHECK(running_ > 0) << "no task runs";
    --running_;
  }

  // Sets the number of running tasks to a saved one.
  void Restore(int running) { running_ = running; }

  void Increase() {
    if (max_ < std::numeric_limits<int>::max()) ++max_;
  }
  // Running tasks go on, even if there are now more than max().
  void Decrease() {
    DING_CHECK(max_ > 0) << "decreased more often than increased";
    --max_;
  }

 private:
  int max_;
  int running_ = 0;
};

// Protects the coordinator from a commander that a user may have written. If the commander throws
// or cannot save its state, status() is an error from then on, and the coordinator ends the run
// with it. The commander is not called again.
//
// Example:
//   const bool converged = commander.Call(&BaseCommander::FinishCollectorTask, task, info);
class GuardedCommander {
 public:
  explicit GuardedCommander(std::unique_ptr<BaseCommander> commander)
      : commander_(std::move(commander)) {}

  // Calls a member function and returns its result. If the commander throws or has failed before,
  // returns the error, or a default value if the function does not return a Status.
  template <typename Function, typename... Arguments>
  auto Call(Function function, Arguments&&... arguments) const {
    using Result = std::decay_t<std::invoke_result_t<Function, BaseCommander&, Arguments...>>;
    std::conditional_t<std::is_void_v<Result>, absl::Status, Result> result{};
    if (failed_.ok()) {
      failed_ = CallUser("the commander", [&] {
        if constexpr (std::is_void_v<Result>) {
          std::invoke(function, *commander_, std::forward<Arguments>(arguments)...);
        } else {
          result = std::invoke(function, *commander_, std::forward<Arguments>(arguments)...);
        }
        return absl::OkStatus();
      });
    }
    if (!failed_.ok()) result = {};
    if constexpr (std::is_same_v<Result, absl::Status>) return failed_.ok() ? result : failed_;
    if constexpr (!std::is_void_v<Result>) return result;
  }
  absl::Status status() const { return Call(&BaseCommander::status); }
  absl::Status SaveState(StateWriter* writer) const {
    const absl::Status saved = Call(&BaseCommander::SaveState, writer);
    if (failed_.ok()) failed_ = Annotate(saved, "the commander cannot save its state");
    return failed_;
  }

 private:
  const std::unique_ptr<BaseCommander> commander_;
  mutable absl::Status failed_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_BASE_COMMANDER_H_
