// The threads or processes that run envs for AsyncEnvManager, which asks for steps and resets and
// collects the answers. Workers know nothing of episodes, states or seeds.
//
//     AskStep(3), AskReset(5), ... ──► Wait(n) ──► {5, 3}: answer(5), answer(3)
//
// Ownership: owns the rows that envs write to, and the threads or processes.
// Threads:   one caller at a time.
#ifndef DING_WORKER_ENV_ENV_WORKERS_H_
#define DING_WORKER_ENV_ENV_WORKERS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

// The answer of an env, valid until the env is asked again.
struct EnvAnswer {
  bool reset = false;   // whether it answers a reset, else a step
  absl::Status status;  // an error if all attempts failed; it does not name the env
  StepResult result;
  absl::Status void_cause;  // why a step is abnormal; OK if the env itself reported it
};

class EnvWorkers {
 public:
  virtual ~EnvWorkers() = default;

  virtual int env_num() const = 0;
  virtual const EnvSpec& spec() const = 0;
  // Row i holds the last observation of env i. While env i is busy, only the env may use its rows.
  virtual MutableColumnsView rows() const = 0;
  // Row i holds the action of env i, which the caller writes before AskStep().
  virtual MutableColumnsView actions() const = 0;

  // Ask an env that is not busy for a step or a reset. It is busy until Wait() has returned it. It
  // may begin at once, or when Wait() is called.
  virtual void AskStep(int env_id) = 0;
  // Builds the env if there is none.
  virtual void AskReset(int env_id, const EpisodeStart& start) = 0;
  // Announces the start of the next episode of an env that is not busy. The env may then reset as
  // soon as its episode is over. The caller must still call AskReset(); if it is called with
  // another start, the env resets once more.
  virtual void PrepareReset(int /*env_id*/, const EpisodeStart& /*start*/) {}

  // Appends the envs that have answered since the last call. Returns when `at_least` envs have
  // answered, or all busy envs if these are fewer.
  //   kDeadlineExceeded  an env hangs and cannot be interrupted; it stays busy
  //   kInternal          no env can answer any more
  virtual absl::Status Wait(int at_least, std::vector<int>* answered) = 0;
  virtual EnvAnswer& answer(int env_id) = 0;

  // Render, save and load an env that is not busy.
  virtual absl::StatusOr<Image> Render(int env_id) = 0;
  virtual absl::Status SaveState(int env_id, StateWriter* writer) = 0;
  // Builds the env if there is none.
  virtual absl::Status LoadState(int env_id, StateReader* reader) = 0;

  // Ends all envs, also busy ones, and the threads or processes. The envs may be asked again.
  virtual void End() = 0;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_WORKERS_H_
