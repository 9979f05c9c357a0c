// A learner worker of a parallel run: takes tasks from the coordinator for as long as the run lasts,
// and makes a learner for each.
//
// Ownership: the session, store and factory that it is made with outlive it.
// Threads:   Run() belongs to one thread, and has threads of its own, which it joins; Close() may be
//            called by any.
#ifndef DING_WORKER_LEARNER_COMM_BASE_COMM_LEARNER_H_
#define DING_WORKER_LEARNER_COMM_BASE_COMM_LEARNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
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

// How collected rows are laid out; null: as the first that come.
struct CollectedLayout {
  SpecPtr rows;
  SpecPtr final_obs;
};

struct CommLearnerOptions;

// What a learner learns from that no collector sends: a data set, say.
class OwnData {
 public:
  virtual ~OwnData() = default;
  // The rows that the learner `rank` of `world_size` takes from the batch of a train iteration, at least one. The
  // learners of a group may be others in the next iteration.
  virtual absl::StatusOr<Batch> BatchOf(int64_t train_iter, int rank, int world_size) = 0;
};

// A task's learner, with everything that it works with.
class TaskLearner {
 public:
  virtual ~TaskLearner() = default;
  virtual ILearner* learner() = 0;
  // How to learn from what is next: the learning rate, say.
  virtual NamedValues LearnSettings(int64_t train_iter, int64_t envstep) = 0;
  // The layout of the rows that collectors send: chunks with other rows are left out.
  virtual CollectedLayout collected() const { return {}; }
  // The data of a learner that demands none from the coordinator; null: it learns from what collectors send.
  virtual OwnData* own_data() { return nullptr; }
  // Changes the options of the worker to those that the task wants. The default does nothing.
  virtual void ReadOptions(CommLearnerOptions* /*options*/) const {}
  // Whether the learner goes on from a checkpoint, and not from the task's init_policy.
  virtual bool resumes() const { return false; }
  // The task is over, however it ended: what was learned is to be there for who resumes it. The
  // default does nothing.
  virtual absl::Status SaveProgress() { return absl::OkStatus(); }
};

// Makes what a task needs, as its earlier learner left it if the task says so; may take its time.
// `group`, which outlives what is made, is of a learner that learns together with others; null: alone.
using TaskLearnerFactory = std::function<absl::StatusOr<std::unique_ptr<TaskLearner>>(
    const LearnerTask& task, GroupMember* group)>;

// The facts of the run that a learner worker needs.
struct CommLearnerOptions {
  int64_t batch_size = 64;
  int64_t nstep = 1;
  double gamma = 0.99;
  ItemSequences sequences;  // the items that it learns from; batch_size counts items
  // Batches that are loaded ahead while the learner trains, at least 1; as many again are drawn.
  int prefetch_batches = 8;
  int loader_threads = 1;  // at least 1
  // Train iterations between two versions of the policy for the collectors, at least 1.
  int64_t send_policy_freq = 10;
  // Train iterations between two reports; priorities of all of them are in the next one.
  int64_t send_info_freq = 1;
  // For a policy that is on-policy, which learns from a round of batch_size items at a time, and publishes its
  // policy after each. Nothing is loaded ahead then, and send_policy_freq is not used.
  struct Rounds {
    int64_t rows = 1;          // items of a round, at least 1; takes the place of batch_size
    int64_t max_data_age = 1;  // versions, at least 0
    ItemSequences sequences;   // takes the place of `sequences`
  };
  Rounds rounds;
  // Without data for that long the task fails.
  absl::Duration data_timeout = absl::Minutes(10);
  // Chunks that are kept decoded.
  int64_t cache_bytes = int64_t{256} << 20;

  // For a learner in a group. batch_size is that of the group; each learner has its share of it.
  AllReduceCreator connect_group;        // null: this program learns in no group
  std::string group_host = "127.0.0.1";  // of this process, as the others reach it
  // For the other learners, in each step: one that takes longer is taken for gone.
  absl::Duration group_timeout = absl::Seconds(30);
};

class BaseCommLearner {
 public:
  virtual ~BaseCommLearner() = default;

  // Works until the run ends, and returns how.
  //   kCancelled  Close() was called
  //   else        the coordinator is lost: says why
  virtual absl::StatusOr<EndRun> Run() = 0;
  // Leaves the run.
  virtual void Close() = 0;
};

}  // namespace ding

#endif  // DING_WORKER_LEARNER_COMM_BASE_COMM_LEARNER_H_
