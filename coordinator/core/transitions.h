// The functions of the coordinator that change a RunState, as far as more than one source calls them.
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
absl::Status HandleCollectorData(RunState* run, uint32_t worker, const CollectorData& data);
absl::Status HandleLearnerDemand(RunState* run, uint32_t worker, const LearnerDemand& demand);
// Tries the data again that wait for room.
void RetryHeldData(RunState* run);
// Forgets the data of a worker that is gone.
void DropHeldData(RunState* run, uint32_t worker, Worker* sender);

// In messages.cc: handles a message of a worker. An error means that the message is invalid.
absl::Status HandleMessage(RunState* run, uint32_t worker, const WorkerMessage& message);
// As WorkerRoster::FindTask(). Counts the message as late if the worker does not run the task any more.
RunningTask* FindTaskOf(RunState* run, uint32_t worker, const std::string& task_id);

// In tasks.cc. Schedule() takes tasks from the commander, and gives them to free workers.
void Schedule(RunState* run);
bool StartCollectorTask(RunState* run, const CollectorTask& waiting,
                        std::optional<uint32_t> witness_of = std::nullopt);
// Ends the task of the worker, which is free afterwards. Returns the task.
RunningTask EndTask(RunState* run, uint32_t id, Worker* worker);
void FailTask(RunState* run, uint32_t id, Worker* worker);
void FinishLearnerTask(RunState* run, uint32_t id, Worker* worker);
// Whether the commander wants this version, or a task needs it.
bool IsKept(const RunState& run, const PolicyVersion& version);
void DropFinishedPolicies(RunState* run);
// Returns the buffer; makes it, with these settings, if it does not exist.
absl::StatusOr<std::shared_ptr<TaskBuffer>> BufferOf(RunState* run, const std::string& buffer_id,
                                                     std::vector<std::string> settings);
// These have data deleted.
void ForgetKeys(RunState* run, const std::vector<std::string>& keys);
void ForgetChunks(RunState* run, const std::vector<int64_t>& chunks);
void ForgetRemoved(RunState* run, TaskBuffer* buffer);
void ForgetUnannounced(RunState* run, uint32_t id, const Worker& worker);

// In evaluations.cc.
void CountResult(RunState* run, const CollectorTask& task, const CollectorFinished& info);
void CountEvaluation(RunState* run, uint32_t worker, const CollectorTask& task,
                     const CollectorFinished& info);
// Asks the stoppers whether the run ends, if none was asked for a while.
void AskStoppersIfDue(RunState* run);
// The time until they are asked; infinite if there are none.
absl::Duration TimeToAskStoppers(const RunState& run);
// Finds workers for the tasks of witnesses.
void AssignWitnesses(RunState* run);
// Takes back a collector's task that has no result: tells the commander, or asks another witness.
void GiveBack(RunState* run, const CollectorTask& task);
void DropDoubted(RunState* run);

// In claims.cc. An error is the fault of the worker that made the claim.
absl::Status CheckPaceOf(const RunState& run, const RunningTask& task, int64_t steps);
// The highest train iteration that collectors of the policy may act by.
int64_t NewestIter(const RunState& run, const std::string& policy_id);
absl::Status CheckIter(const RunState& run, const RunningTask& task, int64_t iter);
absl::Status CheckVersion(const RunState& run, const RunningTask& task,
                          const PolicyVersion& version, const std::string& key);
// Notes that a task has failed. Sends the worker away if its tasks fail and those of others do not.
void NoteFailure(RunState* run, uint32_t worker, const TaskScheduler::TaskKind& kind,
                 const std::string& task_id, const absl::Status& why);
absl::Status HandleBadChunks(RunState* run, uint32_t worker, const BadChunks& bad);
// Notes the train iteration that a message of a learner has named.
void NoteProgress(RunState* run, int64_t iter, const Worker& worker, RunningTask* task);
void NoteStalls(RunState* run);

// In run_status.cc.
absl::StatusOr<std::string> CarryOut(RunState* run, const OperatorRequest& request);
void Drain(RunState* run, uint32_t id, Worker* worker);
// Tells a worker that is not needed any more to leave.
void LetGo(RunState* run, uint32_t id);

}  // namespace internal_coordinator
}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_CORE_TRANSITIONS_H_
