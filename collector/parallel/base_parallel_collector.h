// The interface of a parallel collector, and of the link between it and the task (CollectorLink).
#ifndef DING_WORKER_COLLECTOR_PARALLEL_BASE_PARALLEL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_PARALLEL_BASE_PARALLEL_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// A version of the policy's parameters.
struct PolicyUpdate {
  uint64_t version = 0;
  int64_t train_iter = 0;
  std::shared_ptr<StateReader> model;  // written by LearnMode::SaveModel()
};

// The progress of a collector's task, including the data sent with it.
struct CollectorProgress {
  int64_t cur_episode = 0;  // finished episodes
  int64_t cur_sample = 0;   // sent rows
  int64_t cur_step = 0;     // env steps
};

// The connection of a parallel collector: it sends data and gets policies. The communication layer
// (comm/) implements it; tests have fakes.
//
// Ownership: the link must outlive the collector.
// Threads:   called on the collector's thread.
// Blocking:  a call waits while the other side is slow or not reachable (a full store, a buffer
//            that pushes back), and reports that. Closing the collector's task ends the wait with
//            kCancelled.
class CollectorLink {
 public:
  virtual ~CollectorLink() = default;

  // Stores `data` and then announces every row as an item of training data, so that announced rows
  // can be read.
  //   kCancelled    the task is being closed; nothing was announced
  //   other codes   the data cannot be delivered and are lost
  virtual absl::Status SendData(const SegmentBatch& data, const CollectorProgress& progress) = 0;

  // Returns the newest version of the policy of `player` (0 in single-player tasks) if it is newer
  // than `version`. Waits for one at most `timeout`; zero does not wait.
  //   kCancelled                       the task is being closed
  //   kInvalidArgument, kDataLoss ...  the policy of a player that does not learn cannot be read; for a
  //                                    player that learns, the call waits for a newer version
  //   kNotFound                        the version that a player must use is deleted
  virtual absl::StatusOr<std::optional<PolicyUpdate>> GetPolicyUpdate(int player, uint64_t version,
                                                                      absl::Duration timeout) = 0;

  // Whether the task is to act at random now, since the run still collects its first rows
  // (policy.random_collect_size). Changes once, from true to false.
  virtual bool acts_at_random() const { return false; }
};

// A task of the commander.
struct ParallelCollectorTask {
  std::string task_id;
  bool eval_flag = false;       // whether to evaluate: without exploration and without data
  NamedValues collect_setting;  // settings of the forward pass of the policy
  // Tensors for policies that take some (CollectMode::ForwardWith); others refuse them.
  TensorMap collect_tensors;
  // The first stream of its rows. Env i has the stream stream_base + i; player p of a game of n
  // players has the stream stream_base + n * i + p.
  int64_t stream_base = 0;
  int home_seat = 0;     // in a game, the seat of player 0 in the env
  int64_t envstep = -1;  // of the run when the task was given; -1: not known
};

// The result of a task, for the commander.
struct CollectorFinishInfo {
  bool eval_flag = false;
  int64_t env_num = 0;
  double duration_seconds = 0;
  int64_t train_iter = -1;  // of the last parameters that acted; -1: none
  uint64_t policy_version = 0;
  bool collector_done = false;  // whether all envs ran all their episodes; else it was closed early
  int64_t predefined_episode_count = 0;
  int64_t step_count = 0;
  int64_t sample_count = 0;
  int64_t abnormal_episode_count = 0;  // episodes that an abnormal step ended
  bool is_game = false;                // whether the sign of a return is the result of a game
  std::vector<double> episode_return;  // of player 0, for all finished episodes
  std::optional<double> eval_score;    // of an evaluation, if its score is not the mean return
  // For an evaluation: what the env reported at the ends of its episodes (SummarizeEnvInfo).
  std::vector<EpisodeValue> info;
};

// One of the players of a collecting task in which each player of a game has its own policy.
struct ParallelPlayer {
  CollectMode* collect_mode = nullptr;
  // Whether the player learns: its rows are sent and newer versions of its policy are loaded.
  bool updates = true;
  // Whether its policy already has its final parameters, so that the collector does not ask the
  // link for them.
  bool is_fixed = false;
};

// The parts of a parallel collector.
struct ParallelCollectorParts {
  // The envs of the task. Run() launches the manager, if needed, and closes it. If its episode_num
  // is set, it must be episodes_per_env.
  EnvManager* env = nullptr;
  CollectMode* collect_mode = nullptr;  // for collecting tasks without players
  EvalMode* eval_mode = nullptr;        // for evaluations; gets the parameters
  CollectorLink* link = nullptr;
  int64_t episodes_per_env = 1;  // at least 1
  // For collecting tasks with several policies: the players. The link names a player by its index.
  std::vector<ParallelPlayer> players = {};
  // For evaluations: evaluates `eval_mode` in `env`. Null: as InteractionSerialEvaluator does.
  std::function<absl::StatusOr<EvalResult>(const EvalOptions&)> evaluator = nullptr;
};

// Runs one task of a parallel run: acts in its envs with the newest available policy until all
// episodes of the task are over, and sends the rows.
//
//     GetPolicyUpdate ──► policy ──► envs ──► rows ──► SendData        one thread, in this order:
//           └─── a newer version is loaded between two forward passes ──┘
//
// Ownership: link, env manager, policy and evaluator must outlive the collector.
// Threads:   one thread may call Run(); any thread may call Close() and GetFinishInfo().
// Errors:    errors of Run() name the collector and the failed part.
class BaseParallelCollector {
 public:
  virtual ~BaseParallelCollector() = default;

  // Runs until the task is done or Close() is called; the latter is not an error. Call it once.
  virtual absl::Status Run() = 0;
  // Makes Run() return after the current vector step. Idempotent.
  void Close() { closed_.store(true, std::memory_order_relaxed); }

  // Returns the result as of the last vector step; it is complete after Run(). Thread-safe.
  virtual CollectorFinishInfo GetFinishInfo() const = 0;

 protected:
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> closed_{false};
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_BASE_PARALLEL_COLLECTOR_H_
