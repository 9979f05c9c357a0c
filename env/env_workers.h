// Who calls envs beside the caller of a manager: threads or processes. AsyncEnvManager asks and
// collects answers; workers know nothing of episodes, states or seeds.
//
//     AskStep(3), AskReset(5), ... ──► Wait(n) ──► {5, 3}: answer(5), answer(3)
//
// Ownership: owns the rows that envs write to, and whatever runs them.
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

// What an env answered. Valid until it is asked again.
struct EnvAnswer {
  bool reset = false;   // to a reset, else to a step
  absl::Status status;  // all attempts are used up; does not name the env
  StepResult result;
  absl::Status void_cause;  // of a step that is abnormal; OK if the env said so
};

class EnvWorkers {
 public:
  virtual ~EnvWorkers() = default;

  virtual int env_num() const = 0;
  virtual const EnvSpec& spec() const = 0;
  // Row i is what env i saw last. While env i is busy its rows belong to it.
  virtual MutableColumnsView rows() const = 0;
  // Row i is what env i is to do, written before it is asked.
  virtual MutableColumnsView actions() const = 0;

  // Ask an env that is not busy; it is then, until Wait() has returned it. It may begin at once, or
  // when Wait() is called.
  virtual void AskStep(int env_id) = 0;
  // Builds the env if there is none.
  virtual void AskReset(int env_id, const EpisodeStart& start) = 0;

  // Appends the envs that have answered since the last call. Returns when there are `at_least` of
  // them or all that are busy.
  //   kDeadlineExceeded  an env hangs and cannot be interrupted; it stays busy
  //   kInternal          nobody can answer any more
  virtual absl::Status Wait(int at_least, std::vector<int>* answered) = 0;
  virtual EnvAnswer& answer(int env_id) = 0;

  // Of an env that is not busy.
  virtual absl::StatusOr<Image> Render(int env_id) = 0;
  virtual absl::Status SaveState(int env_id, StateWriter* writer) = 0;
  // Builds the env if there is none.
  virtual absl::Status LoadState(int env_id, StateReader* reader) = 0;

  // Ends all envs, busy ones too, and what runs them. They may be asked again.
  virtual void End() = 0;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_WORKERS_H_
