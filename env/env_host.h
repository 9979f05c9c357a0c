// Builds and calls envs, turns their exceptions into errors and retries failed calls: EnvHost, one
// env in its thread or process; LocalEnvs, the envs of a manager in this process.
//
// Threads: thread-compatible; calls of different envs of LocalEnvs may run at once.
// Errors:  the env's errors, without its number, which the manager adds.
#ifndef DING_WORKER_ENV_ENV_HOST_H_
#define DING_WORKER_ENV_ENV_HOST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
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
  // The number of attempts at a reset or a step before it counts as failed, at least 1.
  int max_retry = 1;
  EnvRetryType retry_type = EnvRetryType::kReset;
  absl::Duration retry_waiting_time = absl::Milliseconds(100);
  // Whether a step whose observation or reward is not finite is abnormal; otherwise it fails.
  bool drop_not_finite = false;
  // Waits between attempts; tests replace it by a function that returns at once.
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
};

// The call that the thread or process of an env is working on.
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

// Calls code of a user's env; an exception becomes kInternal. It is inlined, like EnvHost::Step(),
// because a function call would take as long as the manager's other work for a step.
template <typename Call>
ABSL_ATTRIBUTE_ALWAYS_INLINE inline absl::Status CallEnv(Call&& call) {
  return CallUser("it", std::forward<Call>(call));
}

// Calls the factory and checks the spec of the env.
absl::StatusOr<std::unique_ptr<Env>> BuildEnv(const EnvFactory& factory);

// Adds to the cause of a void step, if there is a cause, that the env is built again and what is
// lost by that.
absl::Status BuiltAnew(const absl::Status& cause);

// Returns kInvalidArgument, naming the field that differs, unless `found`, the spec of a further
// env, equals `expected`, the spec of env 0.
absl::Status CheckSameEnvSpec(const EnvSpec& expected, const EnvSpec& found);

// Sets `result` to the defaults that Env::Step() expects, without allocating.
inline void ClearStepResult(const EnvSpec& spec, StepResult* result) {
  result->reward = 0;
  if (ABSL_PREDICT_FALSE(spec.players > 1 || !spec.reward_shape.empty() || spec.info != nullptr)) {
    result->other_rewards.assign(static_cast<size_t>(spec.players - 1), 0);
    result->reward_components.assign(static_cast<size_t>(spec.reward_components()), 0);
    result->player_ends.assign(spec.players > 1 ? static_cast<size_t>(spec.players) : 0,
                               PlayerEnd::kNone);
    result->info_row.Clear(spec.info);
  }
  result->terminated = false;
  result->truncated = false;
  result->abnormal = false;
  if (ABSL_PREDICT_FALSE(!result->info.empty())) result->info.Clear();
  if (ABSL_PREDICT_FALSE(!result->component_returns.empty())) result->component_returns.clear();
}

// Returns a block of `rows` rows, filled with zeros.
absl::StatusOr<BatchBuilder> ZeroedRows(const SpecPtr& spec, int64_t rows);

// Return kDataLoss, naming the value, if the observation, or a reward of the step, has NaN or
// infinity.
absl::Status CheckFiniteRow(const RowRef& row);
absl::Status CheckFiniteStep(const RowRef& row, const StepResult& result);

// Whether the step must not be retried: the env has taken the step, but with values that are out of
// bounds (kOutOfRange) or not finite (kDataLoss).
inline bool IsBadValue(const absl::Status& failure) {
  return absl::IsOutOfRange(failure) || absl::IsDataLoss(failure);
}

// One env and its retries.
//
//     Reset  up to max_retry attempts, retry_waiting_time apart; kRenew builds a new env for each
//            further attempt
//     Step   kReset: repeats the step on the same env. kRenew: a new env cannot continue the
//            episode, so the step is void (StepResult::abnormal) and TakeVoidCause() says why. A
//            step with bad values (IsBadValue) is not repeated.
//
// Ownership: owns its env. `expected` and `options` must outlive it.
class EnvHost {
 public:
  EnvHost(EnvFactory factory, const EnvSpec* expected, const EnvRetryOptions* options)
      : factory_(std::move(factory)), expected_(expected), options_(options) {}
  EnvHost(EnvHost&&) = default;

  bool built() const { return env_ != nullptr; }
  void Adopt(std::unique_ptr<Env> env) {
    env_ = std::move(env);
    ++builds_;
  }
  Env* env() const { return env_.get(); }
  // The number of envs it has had: env() is another one if this has changed.
  int64_t builds() const { return builds_; }
  void End() { env_.reset(); }
  // `on_attempt` is called before each attempt to build or reset the env and before each repeated
  // step.
  void set_on_attempt(std::function<void(EnvCall)> on_attempt) {
    on_attempt_ = std::move(on_attempt);
  }

  // Builds the env if there is none. `attempts_made` earlier attempts count towards max_retry. An
  // observation with NaN or infinity is a failure.
  absl::Status Reset(const EpisodeStart& start, const RowRef& obs, int attempts_made = 0);

  // `result` must have its defaults (ClearStepResult).
  ABSL_ATTRIBUTE_ALWAYS_INLINE absl::Status Step(const RowView& action, const RowRef& obs,
                                                 StepResult* result) {
    absl::Status status = CallEnv([&] { return env_->Step(action, obs, result); });
    if (ABSL_PREDICT_TRUE(status.ok())) return status;
    return RetryStep(action, obs, std::move(status), result);
  }
  // Returns the failure that made the last step abnormal; OK if the env itself reported the step as
  // abnormal.
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

  std::unique_ptr<Env> env_;  // null: the next reset builds it
  int64_t builds_ = 0;
  EnvFactory factory_;
  const EnvSpec* expected_;
  const EnvRetryOptions* options_;
  std::function<void(EnvCall)> on_attempt_;
  absl::Status void_cause_;
};

// Envs in this process and the rows that they write to, for managers that call envs in the caller's
// thread or in threads of their own. Owns the envs and their rows.
class LocalEnvs {
 public:
  // Makes one env per factory. Builds the first env to get its spec.
  //   kInvalidArgument  no factories, invalid spec
  //   other             the error of the factory
  static absl::StatusOr<std::unique_ptr<LocalEnvs>> Create(const EnvRetryOptions& options,
                                                           std::vector<EnvFactory> factories);

  LocalEnvs(const LocalEnvs&) = delete;
  LocalEnvs& operator=(const LocalEnvs&) = delete;

  const EnvSpec& spec() const { return spec_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  // Row i holds the last observation of env i, at first zeros.
  MutableColumnsView rows() const { return rows_.view(); }
  EnvHost& host(int env_id) { return hosts_[static_cast<size_t>(env_id)]; }
  absl::Span<EnvHost> hosts() { return absl::MakeSpan(hosts_); }
  // Destroys all envs; a reset builds them again.
  void End();

 private:
  LocalEnvs(EnvRetryOptions options, EnvSpec spec, BatchBuilder rows)
      : options_(std::move(options)), spec_(std::move(spec)), rows_(std::move(rows)) {}

  const EnvRetryOptions options_;
  const EnvSpec spec_;
  const BatchBuilder rows_;
  std::vector<EnvHost> hosts_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ENV_HOST_H_
