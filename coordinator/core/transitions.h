// Functions that change a RunState and are called from several sources of the coordinator.
#ifndef DING_WORKER_COORDINATOR_CORE_TRANSITIONS_H_
#define DING_WORKER_COORDINATOR_CORE_TRANSITIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace internal_coordinator {

// In apply.cc.
void End(RunState* run, const absl::Status& status, const std::string& reason);
// Ends the run if a budget is used up, or the commander has failed.
void CheckBudget(RunState* run);

// In data.cc: messages with data and demands. An error means that the message is invalid.
absl::Status HandleCollectorData(RunState* run, Worker* sender, const CollectorData& data);
absl::Status HandleLearnerDemand(RunState* run, Worker* sender, const LearnerDemand& demand);
// Notes the steps that a collecting task claims, and the rows that it has pushed. Steps count only
// as far as rows support them.
void CountSteps(RunState* run, int64_t steps, int64_t rows, RunningTask* task);
// Answers demands for as long as there are rows.
void Serve(RunState* run, TaskBuffer* buffer);
// Tries waiting data again.
void RetryHeldData(RunState* run);
// Forgets the data of a worker that is gone.
void DropHeldData(RunState* run, Worker* sender);

// In messages.cc: handles a message of a worker. An error means that the message is invalid.
absl::Status HandleMessage(RunState* run, uint32_t worker, const WorkerMessage& message);
// As Worker::FindTask(). Counts the message as late if the worker does not run the task any more.
RunningTask* FindTaskOf(RunState* run, Worker* worker, const std::string& task_id);

// In tasks.cc. Schedule() takes tasks from the commander, and gives them to free workers.
void Schedule(RunState* run);
// Gives the task to a free collector that is not `except`. Returns false if the task has to wait.
bool StartCollectorTask(RunState* run, const CollectorTask& waiting,
                        std::optional<uint32_t> except = std::nullopt);
// Ends the task of the worker, which is free afterwards. Returns the task.
RunningTask EndTask(RunState* run, Worker* worker);
void FailTask(RunState* run, Worker* worker);
void FinishLearnerTask(RunState* run, Worker* worker);
// Tells the commander that a task is over without a result.
void NotifyFail(RunState* run, const StartTask& task);
void NotifyFail(RunState* run, const CollectorTask& task);
// Whether the commander wants this version, or a task needs it.
bool IsKept(const RunState& run, const PolicyVersion& version);
void DropFinishedPolicies(RunState* run);
// Returns the buffer; makes it, with these settings, if it does not exist.
absl::StatusOr<std::shared_ptr<TaskBuffer>> BufferOf(RunState* run, const std::string& buffer_id,
                                                     std::vector<std::string> settings);
// These functions delete data.
void ForgetKeys(RunState* run, const std::vector<std::string>& keys);
void ForgetChunks(RunState* run, const std::vector<int64_t>& chunks);
void ForgetRemoved(RunState* run, TaskBuffer* buffer);
void ForgetUnannounced(RunState* run, const Worker& worker);

// In evaluations.cc.
void CountResult(RunState* run, const CollectorTask& task, const CollectorFinished& info);
void CountEvaluation(RunState* run, const Worker& worker, const CollectorTask& task,
                     const CollectorFinished& info);
// Asks the stoppers whether the run ends, if it is long enough since they were last asked.
void AskStoppersIfDue(RunState* run);
// The time until the stoppers are asked; infinite if there are none.
absl::Duration TimeToAskStoppers(const RunState& run);
// Finds workers for the tasks of witnesses.
void AssignWitnesses(RunState* run);
// Takes back a collector's task that has no result: tells the commander, or asks another witness.
void GiveBack(RunState* run, const CollectorTask& task);
void DropDoubted(RunState* run);

// In claims.cc. An error is the fault of the worker that made the claim. Checks that a task claims
// no more env steps, rows or train iterations than any worker makes in its time.
absl::Status CheckPace(const RunState& run, const RunningTask& task, int64_t steps);
// The highest train iteration whose parameters collectors of the policy may act with.
int64_t NewestIter(const RunState& run, const std::string& policy_id);
absl::Status CheckIter(const RunState& run, const RunningTask& task, int64_t iter);
absl::Status CheckVersion(const RunState& run, const Worker& learner, const PolicyVersion& version,
                          const std::string& key);
// Notes that a task of the worker has failed. Sends the worker away if only its tasks fail. Ends
// the run if the tasks of all workers of this kind fail.
void NoteFailure(RunState* run, const StartTask& task, const absl::Status& why, Worker* worker);
void NoteSuccess(RunState* run, const StartTask& task, Worker* worker);
absl::Status HandleBadChunks(RunState* run, Worker* worker, const BadChunks& bad);
// Notes the train iteration that a message of a learner has named.
void NoteProgress(RunState* run, int64_t iter, Worker* learner);
void NoteStalls(RunState* run);
// The time after which this learner counts as stalled; at most 0: it does. A learner that waits for
// rows does not stall while envs are stepped, and the first iteration may take longer.
absl::Duration TimeToStall(const RunState& run, const Worker& learner);

// In operators.cc.
absl::StatusOr<std::string> CarryOut(RunState* run, const OperatorRequest& request);
void Drain(RunState* run, Worker* worker);
// Tells a superfluous worker to leave.
void LetGo(RunState* run, const Worker& worker);

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_CORE_TRANSITIONS_H_
