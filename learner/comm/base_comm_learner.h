// A learner worker of a parallel run: it takes tasks from the coordinator until the run ends, and
// makes a learner for each task. Rows and policies go through a store, messages through a session.
// Its types are "grpc_fs" and "grpc_redis". In DI-engine this is FlaskFileSystemLearner, which uses
// HTTP and pickled files.
//
//     task ─► CreateLearner() ─► ILearner::Start() ◄── AsyncDataLoader ◄── GetData(): demands a batch, and how to load it
//                                  │ Hooks4Call()
//                                  ├──► SendPolicy(): a version of the policy, into the store
//                                  └──► SendLearnInfo(): progress and priorities
//
// A learner of a group (LearnerTask.group_worker) joins the group's first generation before it
// begins to learn. When a generation is over, it drops its batches, joins the next one, copies the
// state of rank 0, and continues with batches of the new size:
//
//     made ─► GroupReady ─► FormGroup ─► connect ─► state of rank 0 ─► learn ──┐
//                 ▲                                                            │ a learner left
//                 └────────────────────────────────────────────────────────────┘
//
// An on-policy policy learns in rounds. The learner publishes a version of the policy, and then
// demands the next round. The demand says which versions may have collected its rows:
//
//     publish version n ──► demand: rows of versions n - max_data_age to n ──► learn ──► publish version n + 1
//
// The learners of a group each demand and learn from their part of a round. Rank 0, which
// publishes, also names the versions in its demand, after it has published.
//
// A learner worker of your own inherits from this class and overrides the steps that it changes.
// docs/how_to/own_learner.md has an example.
//
// Ownership: session, store and factory must outlive it.
// Threads:   one thread calls Run(), which starts threads of its own and joins them; any thread may
//            call Close(). A thread of the loader calls GetData(), other threads call the loaders
//            that it returns; the thread of the task calls the other steps.
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

  // How long it took to wait for each batch ("sample"), to "learn" from it, with all hooks, and to
  // "publish" each version of the policy. Any thread may call it.
  StageTimes stage_times() const { return stages_.times(); }

 protected:
  // Makes the learner of a task. `group` is null unless it learns in a group.
  virtual absl::StatusOr<std::unique_ptr<TaskLearner>> CreateLearner(const LearnerTask& task,
                                                                     GroupMember* group);
  // Returns the hooks that send, for the learner of the task: by default send_policy before the run
  // and after iterations, and send_learn_info after iterations and after the run. Without
  // send_learn_info the task cannot end, and fails.
  virtual absl::StatusOr<std::vector<std::shared_ptr<LearnerHook>>> Hooks4Call();
  // Demands the next batch, and returns how to load it; nullopt when the task is being closed.
  // `source` does both. Called ahead of the learner, by one thread.
  virtual absl::StatusOr<std::optional<BatchLoader>> GetData(DemandSource* source);
  // Puts a version of the policy into the store, where the collectors find it by its key. It is
  // called under a lock, and again for the same version if the value got lost. ReadPolicy() reads a
  // version.
  //   kUnavailable, kResourceExhausted  called again, perhaps with a later version
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

  // Joins the next generation, for a learner in a group. kCancelled if the task is being closed.
  absl::Status JoinGroup(const LearnerTask& task, ILearner* learner);
  absl::Status EnterGeneration(const FormGroup& form, ILearner* learner);

  // Called by the hooks.
  absl::Status PublishPolicy(LearnerView* learner);
  absl::Status ReportProgress(LearnerView* learner);
  // Lets `source` demand the next round, because the newest policy is published.
  void AskForRound(int64_t train_iter, DemandSource* source);
  absl::Status ReportStall(int64_t train_iter, const std::string& why);
  // Puts the newest published policy into the store again if it is missing or damaged there.
  // Without it the collectors would wait for a policy, and the learner for their data.
  absl::Status RestorePolicy() ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetPublished() ABSL_LOCKS_EXCLUDED(mutex_);

  const CommLearnerOptions worker_options_;
  CommLearnerOptions
      options_;  // of the task; only the task's thread and the threads that it starts use them
  WorkerSession* const session_;
  Store* const store_;
  const TaskLearnerFactory factory_;
  GroupMember group_;
  LearnerSlave slave_;
  StageTimer stages_{{"sample", "learn", "publish"}, Clock::Real()};

  // Only the task's thread uses these.
  uint64_t next_version_ = 1;
  uint64_t asked_version_ = 0;     // next_version_ when a round was asked for
  bool learns_in_rounds_ = false;  // an on-policy policy, or in lockstep
  std::deque<int64_t> rounds_;  // train iterations of the policies whose rows may be learned from
  std::string policy_id_;       // of the task
  uint32_t publisher_ = 0;      // the worker that publishes the versions
  LearnRecorder* recorder_ = nullptr;    // of the task
  std::optional<LearnReports> reports_;  // of the task

  // Held while a policy is put into the store, and while RestorePolicy() checks it. So a policy
  // that the coordinator has deleted is never put there again.
  Mutex mutex_;
  PolicyVersion published_version_ ABSL_GUARDED_BY(mutex_);
  std::optional<EncodedBatch> published_ ABSL_GUARDED_BY(mutex_);  // not set: none yet
  std::string found_ ABSL_GUARDED_BY(mutex_);  // working memory of RestorePolicy()
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_BASE_COMM_LEARNER_H_
