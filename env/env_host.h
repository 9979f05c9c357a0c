// One env where it runs, be that the caller's thread, a thread of a pool or a process of its own:
// builds it, calls it, stops its exceptions and tries again what fails.
//
//     Reset  max_retry attempts, retry_waiting_time apart; with kRenew a new env for each further one
//     Step   kReset: the same step again on the same env. kRenew: a new env cannot go on with the
//            episode; the step is void (StepResult::abnormal), TakeVoidCause() says why.
//
// Ownership: owns its env. `expected` and `options` must outlive it.
// Threads:   thread-compatible.
// Errors:    as the env reported them, without its number: the manager adds that.
#ifndef DING_WORKER_ENV_ENV_HOST_H_
#define DING_WORKER_ENV_ENV_HOST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"

namespace ding {

enum class EnvRetryType {
  kReset,  // try again with the same env
  kRenew,  // build a new env before each further attempt
};

struct EnvRetryOptions {
  // Attempts at a reset or a step before it counts as failed, at least 1.
  int max_retry = 1;
  EnvRetryType retry_type = EnvRetryType::kReset;
  absl::Duration retry_waiting_time = absl::Milliseconds(100);
  // Waits between attempts; a test has it return at once.
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
};

// What the thread or process of an env is busy with.
enum class EnvCall : uint8_t {
  kStarting,
  kIdle,
  kWaiting,
  kBuild,
  kReset,
  kStep,
  kRender,
  kSave,
  kLoad
};

// Calls code of a user's env; an exception becomes kInternal. It is inlined, as is EnvHost::Step(),
// because a function call would take as long as all else that a manager does for a step.
template <typename Call>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline absl::Status CallEnv(Call&& call) {
  return CallUser("it", std::forward<Call>(call));
}

// Calls the factory. The env has a spec that is valid.
absl::StatusOr<std::unique_ptr<Env>> BuildEnv(const EnvFactory& factory);

// OK if `found`, of a further env, is the spec that env 0 has; else which field differs.
absl::Status CheckSameEnvSpec(const EnvSpec& expected, const EnvSpec& found);

// To what the env finds, without allocating.
inline void ClearStepResult(int players, StepResult* result) {
  result->reward = 0;
  if (ABSL_PREDICT_FALSE(players > 1)) {
    result->other_rewards.assign(static_cast<size_t>(players - 1), 0);
  }
  result->terminated = false;
  result->truncated = false;
  result->abnormal = false;
  if (ABSL_PREDICT_FALSE(!result->info.empty())) result->info.Clear();
}

absl::StatusOr<BatchBuilder> ZeroedRows(const SpecPtr& spec, int64_t rows);

// What is not finite in this observation; OK if nothing is.
absl::Status CheckFiniteRow(const RowRef& row);

class EnvHost {
 public:
  EnvHost(EnvFactory factory, const EnvSpec* expected, const EnvRetryOptions* options)
      : factory_(std::move(factory)), expected_(expected), options_(options) {}
  EnvHost(EnvHost&&) = default;

  bool built() const { return env_ != nullptr; }
  void Adopt(std::unique_ptr<Env> env) { env_ = std::move(env); }
  void End() { env_.reset(); }
  // Is called before each attempt at building and resetting an env and at stepping it again.
  void set_on_attempt(std::function<void(EnvCall)> on_attempt) {
    on_attempt_ = std::move(on_attempt);
  }

  // Builds the env if there is none. `attempts_made` count towards max_retry. An observation that
  // is not finite fails.
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs, int attempts_made = 0);

  // `result` has its defaults.
  ABSL_ATTRIBUTE_ALWAYS_INLINE absl::Status Step(const RowView& action, const RowRef& obs,
                                                 StepResult* result) {
    absl::Status status = CallEnv([&] { return env_->Step(action, obs, result); });
    if (ABSL_PREDICT_TRUE(status.ok())) return status;
    return RetryStep(action, obs, std::move(status), result);
  }
  // After a step that is abnormal: the failure that made it so; OK if the env itself said so.
  absl::Status TakeVoidCause() { return std::exchange(void_cause_, absl::OkStatus()); }

  absl::StatusOr<Image> Render();
  absl::Status SaveState(StateWriter* writer) const;
  // Builds the env if there is none.
  absl::Status LoadState(StateReader* reader);

 private:
  absl::Status Build();
  absl::Status TryReset(const EpisodeStart& start, const RowRef& obs);
  absl::Status RetryStep(const RowView& action, const RowRef& obs, absl::Status failure,
                         StepResult* result);

  std::unique_ptr<Env> env_;  // null: to be built by the next reset
  EnvFactory factory_;
  const EnvSpec* expected_;
  const EnvRetryOptions* options_;
  std::function<void(EnvCall)> on_attempt_;
  absl::Status void_cause_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_HOST_H_
