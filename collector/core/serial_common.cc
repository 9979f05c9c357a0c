#include "ding_worker/collector/core/serial_common.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/env/env.h"

namespace ding {
namespace {

constexpr char kInfoPrefix[] = "info/";

absl::Status CheckAction(const Spec& policy_output, const FieldSpec& want,
                         absl::string_view env_name) {
  if (policy_output.size() > 0) {
    const FieldSpec& have = policy_output.field(0);
    if (have.name == want.name && have.dtype == want.dtype && have.shape == want.shape &&
        have.num_categories == want.num_categories) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the policy's first output is ",
                   policy_output.size() == 0 ? "missing"
                                             : absl::StrCat("'", policy_output.field(0).name, "', ",
                                                            policy_output.field(0).DebugString()),
                   ", but env '", env_name, "' expects '", want.name, "', ", want.DebugString()));
}

}  // namespace

absl::Status CheckPoliciesFitEnv(absl::Span<const SpecPtr> policy_outputs, bool game,
                                 const EnvSpec& env) {
  if (!game && env.players > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("env '", env.name, "' is a game of ", env.players,
                     " players, expected an env for one; games are played by the workers of type "
                     "'sample_1v1', 'episode_1v1' and 'battle_interaction'"));
  }
  if (game && (env.players < 2 || static_cast<int>(policy_outputs.size()) != env.players)) {
    return absl::InvalidArgumentError(absl::StrCat(
        policy_outputs.size(), " policies for env '", env.name, "', which has ", env.players,
        " players; expected a game, and a policy for each of its players"));
  }
  for (size_t i = 0; i < policy_outputs.size(); ++i) {
    const EnvSpec player = PlayerSpec(env, static_cast<int>(i));
    const absl::Status status = CheckAction(*policy_outputs[i], player.action->field(0), env.name);
    if (!status.ok()) return game ? Annotate(status, absl::StrCat("player ", i)) : status;
  }
  return absl::OkStatus();
}

absl::Span<const int> GameSeats(int player, int players, absl::Span<const int> env_ids,
                                std::vector<int>* seats) {
  if (players == 1) return env_ids;
  seats->clear();
  for (const int env_id : env_ids) seats->push_back(env_id * players + player);
  return *seats;
}

bool PlayerActs::Choose(const EnvManager& env, int player, absl::Span<const int> env_ids) {
  env_ids_.clear();
  rows_.clear();
  for (size_t i = 0; i < env_ids.size(); ++i) {
    if (!env.plays(env_ids[i], player)) continue;
    env_ids_.push_back(env_ids[i]);
    rows_.push_back(static_cast<int64_t>(i));
  }
  return env_ids_.size() < env_ids.size();
}

std::byte* PlayerActs::Spread(const std::byte* actions, int64_t row_bytes, size_t count) {
  const auto bytes = static_cast<size_t>(row_bytes);
  spread_.assign(count * bytes, std::byte{0});
  for (const int64_t row : rows_) {
    std::memcpy(spread_.data() + static_cast<size_t>(row) * bytes, actions, bytes);
    actions += bytes;
  }
  return spread_.data();
}

absl::Status SaveBest(const SaveCheckpointFn& save, absl::string_view name) {
  if (!save) return absl::OkStatus();
  return Annotate(save("ckpt_best"), absl::StrCat(name, ": saving ckpt_best"));
}

int64_t CountAbnormal(const Timesteps& timesteps) {
  return std::count(timesteps.abnormal.begin(), timesteps.abnormal.end(), 1);
}

std::string CauseOfAbnormal(const Timesteps& timesteps, size_t row) {
  for (const AbnormalCause& cause : timesteps.causes) {
    if (static_cast<size_t>(cause.row) == row) return absl::StrCat(": ", cause.cause.message());
  }
  return ": the env says so (StepResult::abnormal, in Python info[\"abnormal\"])";
}

// Why no env is ready: kFailedPrecondition with the states of all envs.
static absl::Status NoEnvReady(const EnvManager& env) {
  std::vector<std::string> states;
  for (int id = 0; id < env.env_num(); ++id) {
    states.push_back(absl::StrCat("env ", id, " is ", EnvStateName(env.env_state(id))));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no env is ready (", absl::StrJoin(states, ", "),
      "); expected an env manager with auto_reset whose envs are not at the end of episode_num"));
}

absl::Status WaitForEnv(const EnvManager& env, absl::FunctionRef<bool(int env_id)> wanted,
                        int* waits) {
  constexpr absl::Duration kMoment = absl::Milliseconds(1);
  constexpr int kMaxWaits = 60000;
  bool may_come = false;
  for (int id = 0; id < env.env_num(); ++id) {
    const EnvState state = env.env_state(id);
    if (wanted(id) && (state == EnvState::kRun || state == EnvState::kReset)) may_come = true;
  }
  if (!may_come || *waits >= kMaxWaits) return NoEnvReady(env);
  if ((*waits)++ > 0) absl::SleepFor(kMoment);
  return absl::OkStatus();
}

void AddStatistics(absl::string_view prefix, absl::Span<const double> values,
                   NamedValues* metrics) {
  const double count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  metrics->Set(absl::StrCat(prefix, "_mean"), mean);
  metrics->Set(absl::StrCat(prefix, "_std"), std::sqrt(squares / count));
  metrics->Set(absl::StrCat(prefix, "_max"), *std::max_element(values.begin(), values.end()));
  metrics->Set(absl::StrCat(prefix, "_min"), *std::min_element(values.begin(), values.end()));
}

std::string EnvStatisticName(absl::string_view name) {
  return absl::StrCat(kInfoPrefix, PrintableUtf8(name));
}

std::vector<EpisodeValue> SummarizeEpisodeInfo(
    const std::map<std::string, std::vector<double>>& info) {
  std::vector<EpisodeValue> summary;
  for (const auto& [name, values] : info) {
    EpisodeValue& value = summary.emplace_back();
    value.name = name;
    double sum = 0;
    for (const double given : values) {
      if (!std::isfinite(given)) continue;
      sum += given;
      ++value.count;
    }
    value.mean = sum / static_cast<double>(value.count);
    value.not_finite = static_cast<int64_t>(values.size()) - value.count;
  }
  return summary;
}

std::vector<EpisodeValue> SummarizeEnvInfo(const std::map<std::string, std::vector<double>>& info) {
  std::vector<EpisodeValue> given;
  for (EpisodeValue& value : SummarizeEpisodeInfo(info)) {
    absl::string_view name = value.name;
    if (!absl::ConsumePrefix(&name, kInfoPrefix) || !std::isfinite(value.mean)) continue;
    value.name = std::string(name);
    given.push_back(std::move(value));
  }
  return given;
}

void AddEpisodeInfo(const std::map<std::string, std::vector<double>>& info, int64_t episodes,
                    NamedValues* metrics) {
  for (const EpisodeValue& value : SummarizeEpisodeInfo(info)) {
    if (value.count > 0) metrics->Set(absl::StrCat(value.name, "_mean"), value.mean);
    if (value.count < episodes) {
      metrics->Set(absl::StrCat(value.name, "_count"), static_cast<double>(value.count));
    }
    if (value.not_finite > 0) {
      metrics->Set(absl::StrCat(value.name, "_not_finite"), static_cast<double>(value.not_finite));
    }
  }
}

void CallSink(absl::FunctionRef<void()> call) {
  const absl::Status status = CallUser("the metric sink", [&call] {
    call();
    return absl::OkStatus();
  });
  if (status.ok()) return;
  DING_LOG_FIRST_N(WARNING, 1) << status.message() << ": metrics are lost";
}

void WriteIterMetrics(const NamedValues& metrics, absl::string_view name, int64_t train_iter,
                      MetricSink* sink) {
  CallSink([&] {
    for (const auto& [metric, value] : metrics) {
      sink->Scalar(absl::StrCat(name, "_iter/", metric), train_iter, value);
    }
  });
}

void WriteMetrics(const NamedValues& metrics, absl::string_view name, int64_t train_iter,
                  int64_t envstep, absl::string_view except, MetricSink* sink) {
  CallSink([&] {
    if (WritesOverTrainIters(*sink, envstep)) WriteIterMetrics(metrics, name, train_iter, sink);
    if (!WritesOverEnvSteps(*sink, envstep)) return;
    for (const auto& [metric, value] : metrics) {
      if (metric != except) sink->Scalar(absl::StrCat(name, "_step/", metric), envstep, value);
    }
  });
}

std::string MetricsLine(const NamedValues& metrics) {
  constexpr size_t kShown = 100;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(metrics.size(), kShown));
  std::string line = absl::StrJoin(metrics.begin(), metrics.begin() + shown, ", ",
                                   [](std::string* out, const NamedValues::Entry& entry) {
                                     absl::StrAppend(out, entry.first, " ", entry.second);
                                   });
  if (metrics.size() > kShown) absl::StrAppend(&line, ", and ", metrics.size() - kShown, " more");
  return line;
}

}  // namespace ding
