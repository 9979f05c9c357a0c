// Runs one task of a parallel run: acts in its envs with the newest policy that it can get, until
// all episodes of the task are over, and hands over what it makes.
//
//     GetPolicyUpdate ──► policy ──► envs ──► rows ──► SendData        one thread, in this order:
//           └─── a newer version is taken between two forward passes ───┘
//
// Ownership: link, env manager and policy are owned by whoever composes them, and outlive it.
// Threads:   Run() belongs to one thread; Close() and GetFinishInfo() may be called by any.
// Errors:    of Run(): name the collector and what failed.
#ifndef DING_WORKER_COLLECTOR_BASE_PARALLEL_COLLECTOR_H_
#define DING_WORKER_COLLECTOR_BASE_PARALLEL_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/collector/collector_link.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// What a task says; from the commander.
struct ParallelCollectorTask {
  std::string task_id;
  bool eval_flag = false;       // evaluate: no exploration, no data
  NamedValues collect_setting;  // of the policy's forward pass
  // First stream of its rows; env i has the stream stream_base + i, of a game of two the streams
  // stream_base + 2 * i and the next one.
  int64_t stream_base = 0;
  int home_seat = 0;  // of a game: the seat of player 0 in the env
};

// What a task gave, for the commander.
struct CollectorFinishInfo {
  bool eval_flag = false;
  int64_t env_num = 0;
  double duration_seconds = 0;
  int64_t train_iter = -1;  // of the parameters that acted last; -1: none did
  uint64_t policy_version = 0;
  bool collector_done = false;  // all envs ran all their episodes; else it was closed before
  int64_t predefined_episode_count = 0;
  int64_t step_count = 0;
  int64_t sample_count = 0;
  bool is_game = false;                // the sign of a return says who won
  std::vector<double> episode_return;  // of all finished episodes, of player 0
};

// One of two who play against each other in a collecting task.
struct ParallelPlayer {
  CollectMode* collect_mode = nullptr;
  // It learns: its rows are wanted, and newer versions of its policy.
  bool updates = true;
};

// What a parallel collector is made with.
struct ParallelCollectorParts {
  // Of the kind that the task wants. Run() launches it, if need be, and closes it. An episode_num of
  // its own is to be episodes_per_env, so that envs rest when they are done.
  EnvManager* env = nullptr;
  CollectMode* collect_mode = nullptr;  // of collecting tasks for one
  EvalMode* eval_mode = nullptr;        // of evaluations
  CollectorLink* link = nullptr;
  int64_t episodes_per_env = 1;  // at least 1
  // Of collecting tasks in a game. The link knows them by their numbers.
  std::vector<ParallelPlayer> players = {};
};

class BaseParallelCollector {
 public:
  virtual ~BaseParallelCollector() = default;

  // Works until the task is done or Close() is called, which is no error. Once.
  virtual absl::Status Run() = 0;
  // Lets Run() return after the vector step under way; may be repeated.
  void Close() { closed_.store(true, std::memory_order_relaxed); }

  // Of the last vector step; complete after Run(). Thread-safe.
  virtual CollectorFinishInfo GetFinishInfo() const = 0;

 protected:
  bool closed() const { return closed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> closed_{false};
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_BASE_PARALLEL_COLLECTOR_H_
