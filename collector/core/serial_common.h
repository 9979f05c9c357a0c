// Helpers of serial collectors and evaluators: they call a policy, check that it fits its envs, and
// write metrics.
#ifndef DING_WORKER_COLLECTOR_CORE_SERIAL_COMMON_H_
#define DING_WORKER_COLLECTOR_CORE_SERIAL_COMMON_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"  // IWYU pragma: export
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/metrics/sink.h"

namespace ding {

// Calls the forward pass of a collect or eval mode with the settings and tensors of the caller.
template <typename Mode>
absl::Status ForwardPolicy(Mode* policy, const ColumnsView& obs, absl::Span<const int> env_ids,
                           const NamedValues& settings, const TensorMap& tensors,
                           const MutableColumnsView& out) {
  return tensors.empty() ? policy->Forward(obs, env_ids, settings, out)
                         : policy->ForwardWith(obs, env_ids, settings, tensors, out);
}

// Calls a method of a policy, which a user may have written. An error, also one that was thrown,
// begins with "policy: ".
template <typename Call>
absl::Status CallPolicy(Call&& call) {
  return Annotate(CallUser("it", std::forward<Call>(call)), "policy");
}

// Checks that there is one policy, or in a `game` one per player, and that the first field of each
// output is the action of a player. kInvalidArgument names the found and the expected.
absl::Status CheckPoliciesFitEnv(absl::Span<const SpecPtr> policy_outputs, bool game,
                                 const EnvSpec& env);

// Returns the ids that the policy of `player` gets: seats env * players + player in a game, else
// the env ids. Valid until `*seats` changes.
absl::Span<const int> GameSeats(int player, int players, absl::Span<const int> env_ids,
                                std::vector<int>* seats);

// The envs in which a player of a game acts, among those that are stepped. In the others the player
// has ended before its game (EnvManager::plays()): its policy is not asked, and its action is 0,
// which nobody reads.
//
// Example:
//   if (acting.Choose(*env, player, env_ids)) {
//     ... act for acting.env_ids(), with the observations in the rows acting.rows() ...
//     action_column = acting.Spread(actions, row_bytes, env_ids.size());
//   }
class PlayerActs {
 public:
  // Returns false if the player acts in all of these envs; then there is no choice.
  bool Choose(const EnvManager& env, int player, absl::Span<const int> env_ids);
  absl::Span<const int> env_ids() const { return env_ids_; }
  absl::Span<const int64_t> rows() const { return rows_; }  // places in the ids that Choose() got
  // Returns `count` rows of actions, valid until the next call: in rows() those at `actions`, else
  // zeros.
  std::byte* Spread(const std::byte* actions, int64_t row_bytes, size_t count);

 private:
  std::vector<int> env_ids_;
  std::vector<int64_t> rows_;
  std::vector<std::byte> spread_;
};

// Decides when an evaluation is due: at iteration 0, then every eval_freq train iterations, at most
// once per iteration.
class EvalSchedule {
 public:
  explicit EvalSchedule(int64_t eval_freq) : eval_freq_(eval_freq) {}

  // A true answer counts as the evaluation of this iteration.
  bool ShouldEval(int64_t train_iter) {
    if (train_iter == last_eval_iter_) return false;
    if (train_iter - last_eval_iter_ < eval_freq_ && train_iter != 0) return false;
    last_eval_iter_ = train_iter;
    return true;
  }

  // -1: there was none yet.
  int64_t last_eval_iter() const { return last_eval_iter_; }
  void set_last_eval_iter(int64_t train_iter) { last_eval_iter_ = train_iter; }

 private:
  int64_t eval_freq_;
  int64_t last_eval_iter_ = -1;
};

// Calls `save` for the checkpoint "ckpt_best", if `save` is set.
absl::Status SaveBest(const SaveCheckpointFn& save, absl::string_view name);

// Call it when no env is ready. Returns OK if an env for which wanted(env_id) is true runs or
// resets in the background, so that a step of no envs may return it. Counts calls in `*waits` and
// sleeps for a millisecond from the second call on. kFailedPrecondition, with the states of all
// envs, if there is no such env or after a minute.
absl::Status WaitForEnv(const EnvManager& env, absl::FunctionRef<bool(int env_id)> wanted,
                        int* waits);

// Returns the number of steps that are abnormal.
int64_t CountAbnormal(const Timesteps& timesteps);
// Returns ": <cause>" of the abnormal step in this row; without one, the env itself reported it.
std::string CauseOfAbnormal(const Timesteps& timesteps, size_t row);

// Adds <prefix>_mean, _std (of the population), _max and _min of `values`, which must not be empty.
void AddStatistics(absl::string_view prefix, absl::Span<const double> values, NamedValues* metrics);

// Returns the name under which a statistic of an env is reported: "info/<name>", so that none
// replaces a value of ours. Bytes that cannot stand in a line of UTF-8 are written as "\xNN".
std::string EnvStatisticName(absl::string_view name);

// Returns the means of the values in EvalResult::episode_info, by their names there.
std::vector<EpisodeValue> SummarizeEpisodeInfo(
    const std::map<std::string, std::vector<double>>& info);
// Returns the values that the env gave, by the env's own names, such as "success". Values without a
// finite mean are left out.
std::vector<EpisodeValue> SummarizeEnvInfo(const std::map<std::string, std::vector<double>>& info);
// Adds the mean of each value as "<name>_mean". Unless all `episodes` gave a finite value, adds
// "<name>_count" (how many did) and, if any is not finite, "<name>_not_finite".
void AddEpisodeInfo(const std::map<std::string, std::vector<double>>& info, int64_t episodes,
                    NamedValues* metrics);

// Calls a metric sink, which a user may have written. If it throws, the first time is a warning in
// the log, and the run goes on.
void CallSink(absl::FunctionRef<void()> call);
// Flushes a metric sink; an exception of it is an error.
inline absl::Status FlushSink(MetricSink* sink) {
  return CallUser("the metric sink", [sink] { return sink->Flush(); });
}

// Writes each metric to "<name>_iter/<metric>" at train_iter.
void WriteIterMetrics(const NamedValues& metrics, absl::string_view name, int64_t train_iter,
                      MetricSink* sink);
// Does the same, and writes each metric except `except` to "<name>_step/<metric>" at envstep, as
// the sink wants it (MetricSink::axis()). An envstep below 0 is not known.
void WriteMetrics(const NamedValues& metrics, absl::string_view name, int64_t train_iter,
                  int64_t envstep, absl::string_view except, MetricSink* sink);

// Formats metrics for the log: "reward_mean 21.5, reward_std 3.2"; after the first hundred, says
// how many there are.
std::string MetricsLine(const NamedValues& metrics);

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_CORE_SERIAL_COMMON_H_
