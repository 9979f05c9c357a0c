// A learner worker of a parallel run: it takes tasks from the coordinator until the run ends, and
// makes a learner for each task. Rows and policies go through a store, messages through a session.
// Its types are "grpc_fs" and "grpc_redis". In DI-engine this is FlaskFileSystemLearner, which uses
// HTTP and pickled files.
//
//     task ─► CreateLearner() ─► ILearner::Start() ◄── AsyncDataLoader ◄── GetData(): demands a batch, returns its loader
//                                  │ Hooks4Call()
//                                  ├──► SendPolicy(): a version of the policy, into the store
//                                  └──► SendLearnInfo(): progress and priorities
//
// The learners of a group (LearnerTask.group_worker) train one model together. A generation is a
// period in which the group has the same members. A learner joins the first generation before it
// begins to learn. When a generation ends, the learner drops its batches, joins the next
// generation, copies the state of rank 0, and continues with batches of the new size:
//
//     made ─► GroupReady ─► FormGroup ─► connect ─► state of rank 0 ─► learn ──┐
//                 ▲                                                            │ a learner left
//                 └────────────────────────────────────────────────────────────┘
//
// An on-policy policy learns in rounds. The learner publishes a version of the policy and then
// demands the next round. The demand names the versions whose rows may be in the round:
//
//     publish version n ──► demand: rows of versions n - max_data_age to n ──► learn ──► publish version n + 1
//
// In a group, each learner demands its part of the round and learns from it. Only rank 0 publishes
// versions; it demands its part after it has published.
//
// To write your own learner worker, derive from this class and override the steps that differ
// (docs/how_to/own_learner.md).
//
// Ownership: session, store and factory must outlive it.
// Threads:   one thread calls Run(), which starts further threads and joins them. Any thread may
//            call Close(). The source thread of the data loader calls GetData(), its worker threads
//            run the returned loaders, and the task's thread calls all other steps.
// Errors:    an error or an exception of a step fails the task.
#ifndef DING_WORKER_LEARNER_COMM_BASE_COMM_LEARNER_H_
#define DING_WORKER_LEARNER_COMM_BASE_COMM_LEARNER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/comm/learn_reports.h"
#include "ding_worker/learner/comm/learner_slave.h"
#include "ding_worker/learner/comm/task_learner.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/metrics/time_histogram.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class BaseCommLearner {
 public:
  BaseCommLearner(const CommLearnerOptions& options, WorkerSession* session, Store* store,
                  TaskLearnerFactory factory);
  virtual ~BaseCommLearner() = default;

  // Works until the run ends. Returns the coordinator's last message, which says how it ended.
  //   kCancelled   Close() was called
  //   other codes  the connection to the coordinator is lost; the message says why
  virtual absl::StatusOr<EndRun> Run();
  // Leaves the run: Run() returns.
  virtual void Close();

  // Returns the durations of each stage: "sample" (waiting for a batch), "learn" (training on it,
  // with all hooks) and "publish" (publishing a version of the policy). Any thread may call it.
  StageTimes stage_times() const { return stages_.times(); }

 protected:
  // Makes the learner of a task. `group` is null if it learns alone.
  virtual absl::StatusOr<std::unique_ptr<TaskLearner>> CreateLearner(const LearnerTask& task,
                                                                     GroupMember* group);
  // Returns the hooks that publish policies and report progress. The default has send_policy at
  // before_run and after_iter, and send_learn_info at after_iter and after_run. Without
  // send_learn_info the task fails, because only its last report ends the task.
  virtual absl::StatusOr<std::vector<std::shared_ptr<LearnerHook>>> Hooks4Call();
  // Demands the next batch through `source` and returns the function that loads it. Returns nullopt
  // when the task is being closed. One thread calls this, ahead of the learner.
  virtual absl::StatusOr<std::optional<BatchLoader>> GetData(DemandSource* source);
  // Write a version of the policy to the store, and read it back. Collectors find it by
  // version.key(). SendPolicy() is called under a lock. It is called again for the same version if
  // the store has lost the value.
  //   kUnavailable, kResourceExhausted  the call is retried, perhaps with a later version
  virtual absl::Status SendPolicy(const PolicyVersion& version, const EncodedBatch& model);
  virtual absl::Status ReadPolicy(const PolicyVersion& version, std::string* model);
  // Reports progress and priorities to the coordinator. A report with learner_done() ends the task.
  virtual absl::Status SendLearnInfo(LearnerInfo info);

  LearnerSlave* slave() { return &slave_; }
  Store* store() const { return store_; }

 private:
  struct DataPipeline;

  void RunTask(const LearnerTask& task);
  absl::Status Learn(const LearnerTask& task);
  // Shows new evaluations to the hooks of the learner.
  absl::Status ShowEvaluations(ILearner* learner);
  // Loads the initial parameters of the task.
  absl::Status LoadInitPolicy(const LearnerTask& task, LearnMode* policy);
  absl::Status RegisterHooks(const LearnerTask& task, ILearner* learner);
  absl::StatusOr<std::unique_ptr<DataPipeline>> MakePipeline(bool grouped,
                                                             const LearnerView& learner,
                                                             ItemLoader* items);
  // Returns the next batch that has rows. Reports what it waits for meanwhile.
  absl::StatusOr<std::optional<TrainData>> NextData(bool grouped, const LearnerView& learner,
                                                    DataPipeline* pipeline);

  // Returns the next batch of a learner with data of its own.
  absl::StatusOr<std::optional<TrainData>> NextOwnData(const LearnerView& learner, OwnData* own);
  // Describes the wait for data; "" if there is none. `empty`: batches come, but without rows.
  std::string WaitsFor(const DataPipeline& pipeline, bool empty) const;

  // Joins the next generation of the group. kCancelled if the task is being closed.
  absl::Status JoinGroup(const LearnerTask& task, ILearner* learner);
  absl::Status EnterGeneration(const FormGroup& form, ILearner* learner);

  // Called by the hooks.
  absl::Status PublishPolicy(LearnerView* learner);
  absl::Status ReportProgress(LearnerView* learner);
  // Lets `source` demand the next round.
  void AskForRound(int64_t train_iter, DemandSource* source);
  absl::Status ReportStall(int64_t train_iter, const std::string& why);
  // Writes the newest published policy to the store again if it is missing or damaged there.
  // Otherwise the collectors would wait for a policy, and the learner for their data.
  absl::Status RestorePolicy() ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetPublished() ABSL_LOCKS_EXCLUDED(mutex_);

  const CommLearnerOptions worker_options_;
  // The options of the task. Only its thread and the threads that it starts use them.
  CommLearnerOptions options_;
  WorkerSession* const session_;
  Store* const store_;
  const TaskLearnerFactory factory_;
  GroupMember group_;
  LearnerSlave slave_;
  StageTimer stages_{{"sample", "learn", "publish"}, Clock::Real()};

  // Only the task's thread uses these.
  uint64_t next_version_ = 1;
  uint64_t asked_version_ = 0;           // next_version_ at the last demand of a round
  bool learns_in_rounds_ = false;        // the policy is on-policy, or lockstep is set
  std::deque<int64_t> rounds_;           // train iterations of the versions whose rows are allowed
  std::string policy_id_;                // of the task
  uint32_t publisher_ = 0;               // the worker that publishes the versions
  LearnRecorder* recorder_ = nullptr;    // of the task
  std::optional<LearnReports> reports_;  // of the task

  // Held while a policy is written to the store, and while RestorePolicy() checks it. This prevents
  // writing a policy again that the coordinator has deleted.
  Mutex mutex_;
  PolicyVersion published_version_ ABSL_GUARDED_BY(mutex_);
  std::optional<EncodedBatch> published_ ABSL_GUARDED_BY(mutex_);  // not set: none yet
  std::string found_ ABSL_GUARDED_BY(mutex_);  // working memory of RestorePolicy()
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_BASE_COMM_LEARNER_H_
