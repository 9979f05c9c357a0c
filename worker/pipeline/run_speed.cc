#include "ding_worker/worker/pipeline/run_speed.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {
namespace {

constexpr int64_t kWritePeriod = 1'000'000'000;
constexpr double kSecondsPerNano = 1e-9;

}  // namespace

RunSpeed::RunSpeed(const Clock* clock)
    : clock_(clock), timer_({"collect", "learn", "evaluate", "save"}, clock) {}

void RunSpeed::Begin(int64_t env_step, int64_t train_iter) {
  written_nanos_ = clock_->MonotonicNanos();
  env_step_ = env_step;
  train_iter_ = train_iter;
}

bool RunSpeed::WriteIfDue(int64_t env_step, int64_t train_iter, MetricSink* metrics) {
  if (clock_->MonotonicNanos() - written_nanos_ < kWritePeriod) return false;
  Write(env_step, train_iter, metrics);
  return true;
}

void RunSpeed::Write(int64_t env_step, int64_t train_iter, MetricSink* metrics) {
  const int64_t now = clock_->MonotonicNanos();
  const double seconds =
      std::max(kSecondsPerNano, kSecondsPerNano * static_cast<double>(now - written_nanos_));
  const bool has_env_steps = env_step >= 0;
  const bool over_iters = !WritesOverEnvSteps(*metrics, env_step);
  const int64_t at = over_iters ? train_iter : env_step;
  const auto write = [&](absl::string_view name, double value) {
    metrics->Scalar(absl::StrCat(over_iters ? "run_iter/" : "run_step/", name), at, value);
  };
  if (has_env_steps) {
    write("env_steps_per_second", static_cast<double>(env_step - env_step_) / seconds);
  }
  write("updates_per_second", static_cast<double>(train_iter - train_iter_) / seconds);
  const StageTimes stages = timer_.times();
  for (size_t stage = has_env_steps ? kCollect : kLearn; stage < stages.size(); ++stage) {
    write(absl::StrCat(stages[stage].first, "_seconds"),
          kSecondsPerNano * static_cast<double>(stages[stage].second.nanos()));
  }
  written_nanos_ = now;
  env_step_ = env_step;
  train_iter_ = train_iter;
}

}  // namespace ding
