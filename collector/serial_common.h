// What serial collectors and evaluators share: calling a policy, checking that it fits its envs,
// and writing metrics.
#ifndef DING_WORKER_COLLECTOR_SERIAL_COMMON_H_
#define DING_WORKER_COLLECTOR_SERIAL_COMMON_H_

#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

// The result of a call of a policy's method, which may be a user's: an exception becomes
// kInternal, and every error is said to be the policy's.
template <typename Call>
absl::Status CallPolicy(Call&& call) {
  try {
    absl::Status status = std::forward<Call>(call)();
    if (ABSL_PREDICT_TRUE(status.ok())) return status;
    return Annotate(status, "policy");
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("policy threw an exception: ", e.what()));
  } catch (...) {
    return absl::InternalError("policy threw something that is no std::exception");
  }
}

// kInvalidArgument with all of them, "<where>: <problem>; <problem>"; OK if there are none.
absl::Status ProblemsToStatus(const std::vector<std::string>& problems, absl::string_view where);

// OK if the first field of a policy's output is the env's action. Else kInvalidArgument with both.
absl::Status CheckPolicyFitsEnv(const Spec& policy_output, const EnvSpec& env);

// Whether an env is at work that is not among these: a step of no envs waits for it.
bool OthersAtWork(const EnvManager& env, const ReadyObs& ready);

// ": <why>" of the abnormal step in this row, if the env manager knows; else nothing.
std::string CauseOfAbnormal(const Timesteps& timesteps, size_t row);

// Why no env is ready: kFailedPrecondition with the states of all envs.
absl::Status NoEnvReady(const EnvManager& env);

// Adds <prefix>_mean, _std (of the population), _max and _min of `values`, which is not empty.
void AddStatistics(absl::string_view prefix, absl::Span<const double> values, NamedValues* metrics);

// Writes each metric to "<name>_iter/<metric>" at train_iter.
void WriteIterMetrics(const NamedValues& metrics, absl::string_view name, int64_t train_iter,
                      MetricSink* sink);
// Writes each metric, except one named `except`, to "<name>_step/<metric>" at envstep.
void WriteStepMetrics(const NamedValues& metrics, absl::string_view name, int64_t envstep,
                      absl::string_view except, MetricSink* sink);

// "reward_mean 21.5, reward_std 3.2".
std::string MetricsLine(const NamedValues& metrics);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_SERIAL_COMMON_H_
