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

// Records everything that the learner's parameters depend on, in the order in which the learner
// uses it. An implementation (worker/tasks/recording.h) handles its own errors, so that they never
// stop the learner.
//
// Threads: any thread may call AddChunk(); the learner's thread calls the others.
class LearnRecorder {
 public:
  virtual ~LearnRecorder() = default;

  // Adds the bytes of a chunk, before a batch whose items refer to it. A chunk may be added more
  // than once.
  virtual void AddChunk(int64_t chunk, absl::string_view bytes) = 0;
  // Adds the batch that the learner uses next, with its items.
  virtual void AddBatch(const LearnerView& learner, const TrainData& data) = 0;
  // Adds an evaluation, which hooks see before the next batch.
  virtual void AddEvaluation(const EvaluationResult& result) = 0;
  // Adds a published version: the learner's current parameters. The first call comes before the
  // first batch and has the initial parameters.
  virtual void AddVersion(const PolicyVersion& version, const LearnerView& learner) = 0;
};

// The specs of collected rows and of their final observations. Null: the first rows determine them.
struct CollectedLayout {
  SpecPtr rows;
  SpecPtr final_obs;
};

// The settings of the run that a learner worker needs.
struct CommLearnerOptions {
  int64_t batch_size = 64;
  int64_t nstep = 1;
  double gamma = 0.99;
  ItemSequences sequences;  // how rows are cut into items; batch_size counts items
  // The number of batches that are loaded ahead while the learner trains, at least 1. The
  // coordinator draws the same number of further batches ahead.
  int prefetch_batches = 8;
  int loader_threads = 1;  // at least 1
  // Train iterations between two versions of the policy for the collectors, at least 1.
  int64_t send_policy_freq = 10;
  // Train iterations between two reports. A report has the priorities of all iterations since the
  // previous one.
  int64_t send_info_freq = 1;
  // For an on-policy policy. The learner learns from one round of items at a time and publishes the
  // policy after each round. It loads nothing ahead, and ignores send_policy_freq.
  struct Rounds {
    int64_t rows = 1;          // items of a round, at least 1; takes the place of batch_size
    int64_t max_data_age = 1;  // in versions of the policy, at least 0
    ItemSequences sequences;   // takes the place of `sequences`
  };
  Rounds rounds;
  // If true, the learner publishes a version before it demands the batches of the next one
  // (send_policy_freq batches, or one round). The task fails if a row is lost.
  bool lockstep = false;
  // The task fails if no data arrive for this long.
  absl::Duration data_timeout = absl::Minutes(10);
  // The bounds of the cache of chunks, in bytes and in rows.
  int64_t cache_bytes = int64_t{256} << 20;
  int64_t cache_rows = std::numeric_limits<int64_t>::max();

  // The fields below are for a learner in a group. There, batch_size is the batch of the whole
  // group, and each learner gets its share.
  AllReduceCreator connect_group;        // null: this program cannot learn in a group
  std::string group_host = "127.0.0.1";  // where the other learners reach this process
  // How long to wait for the other learners in each step. A slower learner counts as gone.
  absl::Duration group_timeout = absl::Seconds(30);
};

// Training data that do not come from collectors, such as a data set.
class OwnData {
 public:
  virtual ~OwnData() = default;
  // Returns the part of the batch of iteration `train_iter` that learner `rank` of `world_size`
  // learns from: at least one row. `rank` and `world_size` may differ in the next iteration.
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
  // Writes the settings of the task into the worker's options. The default changes nothing.
  virtual void ReadOptions(CommLearnerOptions* /*options*/) const {}
  // Whether the learner continues from a checkpoint instead of the task's init_policy.
  virtual bool resumes() const { return false; }
  // Called when the task is over, for any reason. Saves the learner, so that another learner can
  // resume the task. If it fails, the worker tells the coordinator (unsaved_checkpoints.h). The
  // default does nothing.
  virtual absl::Status SaveProgress() { return absl::OkStatus(); }
};

// Makes the learner of a task; this may take long. If the task says so, the learner resumes the
// work of an earlier one. `group` outlives the result; null: the learner learns alone.
using TaskLearnerFactory = std::function<absl::StatusOr<std::unique_ptr<TaskLearner>>(
    const LearnerTask& task, GroupMember* group)>;

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_TASK_LEARNER_H_
