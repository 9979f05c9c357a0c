#include "ding_worker/worker/parallel_run/run_rates.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ding {
namespace {

constexpr double kWritePeriod = 1;  // seconds

}  // namespace

RunRates::RunRates(const RunStatus& start, bool has_env_steps, MetricSink* metrics)
    : has_env_steps_(has_env_steps),
      metrics_(*metrics),
      elapsed_seconds_(start.elapsed_seconds()),
      env_step_(start.envstep()),
      train_iter_(start.train_iter()) {}

void RunRates::WriteIfDue(const RunStatus& status) {
  if (status.elapsed_seconds() - elapsed_seconds_ >= kWritePeriod) Write(status);
}

void RunRates::Write(const RunStatus& status) {
  const double seconds = status.elapsed_seconds() - elapsed_seconds_;
  const int64_t env_steps = status.envstep() - env_step_;
  const int64_t updates = status.train_iter() - train_iter_;
  if (seconds <= 0 || (env_steps == 0 && updates == 0)) return;
  const bool over_steps = WritesOverEnvSteps(metrics_, has_env_steps_ ? status.envstep() : -1);
  const auto write = [&](absl::string_view group, absl::string_view name, double value) {
    metrics_.Scalar(absl::StrCat(group, over_steps ? "_step/" : "_iter/", name),
                    over_steps ? status.envstep() : status.train_iter(), value);
  };
  if (has_env_steps_) {
    write("run", "env_steps_per_second", static_cast<double>(env_steps) / seconds);
  }
  write("run", "updates_per_second", static_cast<double>(updates) / seconds);
  for (const BufferStatus& buffer : status.buffer()) {
    const std::string group = status.buffer_size() == 1 ? "replay_buffer" : buffer.buffer_id();
    write(group, "rows", static_cast<double>(buffer.count()));
    if (buffer.has_staleness_iterations()) write(group, "age", buffer.staleness_iterations());
    if (buffer.push_count() > 0) {
      write(group, "drawn_per_pushed",
            static_cast<double>(buffer.sample_count()) / static_cast<double>(buffer.push_count()));
    }
  }
  elapsed_seconds_ = status.elapsed_seconds();
  env_step_ = status.envstep();
  train_iter_ = status.train_iter();
}

}  // namespace ding
