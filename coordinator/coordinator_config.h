// Reads the options of a coordinator from its config.
#ifndef DING_WORKER_COORDINATOR_COORDINATOR_CONFIG_H_
#define DING_WORKER_COORDINATOR_COORDINATOR_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/selection/rate_limiter.h"

namespace ding {

// Sets the options that the config has. The program sets the name and the budgets of the run.
// Coordinator::Problems() checks all options.
inline void ReadCoordinatorOptions(const CoordinatorConfig& config, Coordinator::Options* options) {
  options->collector_task_timeout = absl::Seconds(config.collector_task_timeout());
  options->learner_task_timeout = absl::Seconds(config.learner_task_timeout());
  options->collectors = config.collectors();
  options->max_collectors = config.max_collectors();
  options->max_task_failures = config.max_task_failures();
}

// Returns the bounds on the replay ratio of a buffer, from which `batch_size` rows are drawn at a
// time; nullopt if the config sets none.
inline std::optional<ReplayRatioLimiter::Options> ReadReplayRatio(const BufferConfig& config,
                                                                  int64_t batch_size) {
  const ReplayRatioConfig& section = config.replay_ratio();
  ReplayRatioLimiter::Options options;
  options.min = section.min();
  options.max = section.max();
  options.min_size = section.min_size();
  options.error_buffer = section.has_error_buffer() ? section.error_buffer() : batch_size;
  const bool is_set = options.min != 0 || options.max != ReplayRatioConfig().max() ||
                      options.min_size != 0 || section.has_error_buffer();
  return is_set ? std::make_optional(options) : std::nullopt;
}

// Adds a sentence for each of these bounds that is out of range.
inline void AppendReplayRatioProblems(const BufferConfig& config, int64_t batch_size,
                                      std::vector<std::string>* problems) {
  const std::optional<ReplayRatioLimiter::Options> options = ReadReplayRatio(config, batch_size);
  if (options.has_value()) ReplayRatioLimiter::AppendProblems(*options, batch_size, problems);
}

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COORDINATOR_CONFIG_H_
