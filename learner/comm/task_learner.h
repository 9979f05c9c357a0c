// The learner of a task, with the policy that it trains, and the options of a learner worker
// (base_comm_learner.h).
//
// Threads: only the task's thread calls a TaskLearner.
#ifndef DING_WORKER_LEARNER_COMM_TASK_LEARNER_H_
#define DING_WORKER_LEARNER_COMM_TASK_LEARNER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/interaction/all_reduce/all_reduce.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/learner/comm/group_member.h"
#include "ding_worker/learner/learner.h"

namespace ding {

// Records all inputs of a learner's parameters, in the order in which the learner uses them. The
// implementation (worker/tasks/recording.h) reports its errors itself: a recording never disturbs
// the learner.
//
// Threads: any thread may call AddChunk(); the learner's thread calls the others.
class LearnRecorder {
 public:
  virtual ~LearnRecorder() = default;

  // The bytes of a chunk that items may name. A chunk may be added more than once.
  virtual void AddChunk(int64_t chunk, absl::string_view bytes) = 0;
  // The batch that the learner uses next, with its items; their chunks were added before.
  virtual void AddBatch(const LearnerView& learner, const TrainData& data) = 0;
  // The evaluation that hooks see before the next batch.
  virtual void AddEvaluation(const EvaluationResult& result) = 0;
  // A version with the learner's current parameters. The first call, before the first batch, has
  // the initial state.
  virtual void AddVersion(const PolicyVersion& version, const LearnerView& learner) = 0;
};

// The layout of collected rows. If it is null, the first rows determine it.
struct CollectedLayout {
  SpecPtr rows;
  SpecPtr final_obs;
};

// The facts of the run that a learner worker needs.
struct CommLearnerOptions {
  int64_t batch_size = 64;
  int64_t nstep = 1;
  double gamma = 0.99;
  ItemSequences sequences;  // the items that it learns from; batch_size counts items
  // The number of batches that are loaded ahead while the learner trains, at least 1. The
  // coordinator draws the same number of further batches ahead.
  int prefetch_batches = 8;
  int loader_threads = 1;  // at least 1
  // Train iterations between two versions of the policy for the collectors, at least 1.
  int64_t send_policy_freq = 10;
  // Train iterations between two reports. A report has the priorities of all iterations since the
  // previous one.
  int64_t send_info_freq = 1;
  // For an on-policy policy: the learner learns from one round of items at a time, and publishes
  // the policy after each round. Nothing is loaded ahead, and send_policy_freq is not used.
  struct Rounds {
    int64_t rows = 1;          // items of a round, at least 1; takes the place of batch_size
    int64_t max_data_age = 1;  // in versions of the policy, at least 0
    ItemSequences sequences;   // takes the place of `sequences`
  };
  Rounds rounds;
  // The learner demands the batches of a version (send_policy_freq batches, or one round) only
  // after it has published the previous version. It fails if a row is lost.
  bool lockstep = false;
  // The task fails after this time without data.
  absl::Duration data_timeout = absl::Minutes(10);
  // The most memory and rows of cached chunks.
  int64_t cache_bytes = int64_t{256} << 20;
  int64_t cache_rows = std::numeric_limits<int64_t>::max();

  // The following are for a learner in a group. batch_size is the group's; each learner gets its
  // share.
  AllReduceCreator connect_group;  // null: this program cannot learn in a group
  std::string group_host =
      "127.0.0.1";  // the host of this process, by which the other learners reach it
  // How long to wait for the other learners in each step. A slower learner counts as gone.
  absl::Duration group_timeout = absl::Seconds(30);
};

// Training data that do not come from collectors, such as a data set.
class OwnData {
 public:
  virtual ~OwnData() = default;
  // Returns the rows of the batch of a train iteration that learner `rank` of `world_size` learns
  // from, at least one. Rank and number of learners may differ in the next iteration.
  virtual absl::StatusOr<Batch> BatchOf(int64_t train_iter, int rank, int world_size) = 0;
};

// The learner of a task, with the policy that it trains.
class TaskLearner {
 public:
  virtual ~TaskLearner() = default;
  virtual ILearner* learner() = 0;
  // Returns the settings for the next batch, such as the learning rate.
  virtual NamedValues LearnSettings(int64_t train_iter, int64_t envstep) = 0;
  // The layout of the rows that collectors send. Chunks with another layout are left out.
  virtual CollectedLayout collected() const { return {}; }
  // The learner's own data, if it demands none from the coordinator. Null: it learns from rows of
  // collectors.
  virtual OwnData* own_data() { return nullptr; }
  // The recorder of the learner's inputs. Null: nothing is recorded, as for a learner in a group or
  // with data of its own.
  virtual LearnRecorder* recorder() { return nullptr; }
  // Changes the options of the worker to what the task needs. The default does nothing.
  virtual void ReadOptions(CommLearnerOptions* /*options*/) const {}
  // Whether the learner continues from a checkpoint instead of the task's init_policy.
  virtual bool resumes() const { return false; }
  // Called when the task is over, for any reason. Saves the learner, so that another learner can
  // resume the task. The coordinator is told if this fails (unsaved_checkpoints.h). The default
  // does nothing.
  virtual absl::Status SaveProgress() { return absl::OkStatus(); }
};

// Makes the learner of a task, which may take long. If the task says so, it continues an earlier
// learner's work. `group` outlives the result; null: the learner is not in a group.
using TaskLearnerFactory = std::function<absl::StatusOr<std::unique_ptr<TaskLearner>>(
    const LearnerTask& task, GroupMember* group)>;

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_TASK_LEARNER_H_
