// The learner worker that reads its data from a store and sends its messages through a session. It does what DI-engine's
// FlaskFileSystemLearner does by HTTP and pickled files. Its types are "grpc_fs" and "grpc_redis",
// which insists on a store in Redis.
//
//     LearnerData ──► DemandSource ──► AsyncDataLoader ──► ILearner::Start()
//                     reads the store    ahead of time      │ hooks
//                                                           ├──► policy versions: store, then
//                                                           │    PolicyVersion
//                                                           └──► LearnerInfo: progress, priorities
//
// A learner of a group (LearnerTask.group_worker) joins the group's first generation before it begins to learn. When a
// generation is over, it drops the batches that it has, joins the next one, takes over the state of rank 0, and goes on
// with batches of the new size:
//
//     made ─► GroupReady ─► FormGroup ─► connect ─► state of rank 0 ─► learn ──┐
//                 ▲                                                            │ a learner left
//                 └────────────────────────────────────────────────────────────┘
//
// An on-policy policy learns in rounds. The learner publishes a version of the policy, and then demands the next round.
// The demand says which versions may have collected its rows:
//
//     publish version n ──► demand: rows of versions n - max_data_age to n ──► learn ──► publish version n + 1
//
// Ownership, threads: as BaseCommLearner.
#ifndef DING_WORKER_LEARNER_COMM_RPC_FILE_SYSTEM_LEARNER_H_
#define DING_WORKER_LEARNER_COMM_RPC_FILE_SYSTEM_LEARNER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/learner/comm/demand_source.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/comm/item_loader.h"
#include "ding_worker/learner/comm/learn_recorder.h"
#include "ding_worker/learner/comm/learner_slave.h"
#include "ding_worker/learner/train_data.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class RpcFileSystemLearner : public BaseCommLearner {
 public:
  RpcFileSystemLearner(const CommLearnerOptions& options, WorkerSession* session, Store* store,
                       TaskLearnerFactory factory);

  absl::StatusOr<EndRun> Run() override;
  void Close() override;

 private:
  struct DataPipeline;

  void RunTask(const LearnerTask& task);
  absl::Status Learn(const LearnerTask& task);
  // Shows new evaluations to the hooks of the learner.
  absl::Status ShowEvaluations(ILearner* learner);
  // Loads the parameters that the task begins with.
  absl::Status LoadInitPolicy(const LearnerTask& task, LearnMode* policy);
  void RegisterHooks(const LearnerTask& task, ILearner* learner);
  absl::StatusOr<std::unique_ptr<DataPipeline>> MakePipeline(bool grouped, const ILearner& learner,
                                                             ItemLoader* items);
  // Returns the next batch that has rows. Reports what it waits for meanwhile.
  absl::StatusOr<std::optional<TrainData>> NextData(const ILearner& learner,
                                                    DataPipeline* pipeline);

  // Returns the next batch of a learner with data of its own.
  absl::StatusOr<std::optional<TrainData>> NextOwnData(const ILearner& learner, OwnData* own);
  // Returns a description of the wait for data; empty if there is nothing to say. `empty` says that
  // batches come, but without rows.
  std::string WaitsFor(const DataPipeline& pipeline, bool empty) const;

  // Joins the next generation, for a learner in a group. kCancelled if the task is being closed.
  absl::Status JoinGroup(const LearnerTask& task, ILearner* learner);
  absl::Status EnterGeneration(const FormGroup& form, ILearner* learner);

  // Hooks of the learner.
  absl::Status SendPolicy(const LearnerTask& task, ILearner* learner);
  absl::Status SendInfo(ILearner* learner);
  // Lets `source` demand the next round, because the newest policy is published.
  void AskForRound(int64_t train_iter, DemandSource* source);
  absl::Status ReportStall(int64_t train_iter, const std::string& why);
  // Puts the newest published policy into the store again if it is missing or damaged there. Otherwise the collectors would
  // have no policy, and the learner would wait for their data for ever.
  absl::Status RestorePolicy() ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetPublished() ABSL_LOCKS_EXCLUDED(mutex_);

  const CommLearnerOptions worker_options_;
  CommLearnerOptions
      options_;  // those of the task; only its thread and the threads that it starts use them
  WorkerSession* const session_;
  Store* const store_;
  const TaskLearnerFactory factory_;
  GroupMember group_;
  LearnerSlave slave_;

  // Only the task's thread uses these.
  uint64_t next_version_ = 1;
  uint64_t asked_version_ = 0;  // next_version_ when a round was asked for
  bool grouped_ = false;
  bool learns_in_rounds_ = false;  // an on-policy policy, or in lockstep
  std::deque<int64_t> rounds_;  // train iterations of the policies whose rows may be learned from
  LearnRecorder* recorder_ = nullptr;  // of the task
  LearnerInfo info_;                   // the next report
  int64_t reported_iter_ = 0;
  std::optional<Timer> since_report_;
  bool told_stall_ = false;  // whether a stall was reported since the last report of progress
  bool told_stop_request_ = false;
  std::string policy_stall_;  // why no policy can be published; empty if one can be

  // Held while a policy is put into the store, and while RestorePolicy() looks for it. So a policy that the coordinator has
  // deleted for a newer one is never put there again.
  Mutex mutex_;
  std::string published_key_ ABSL_GUARDED_BY(mutex_);  // empty: none yet
  std::optional<EncodedBatch> published_ ABSL_GUARDED_BY(mutex_);
  std::string found_ ABSL_GUARDED_BY(mutex_);  // working memory of RestorePolicy()
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_RPC_FILE_SYSTEM_LEARNER_H_
