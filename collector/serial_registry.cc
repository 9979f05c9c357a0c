#include "ding_worker/collector/serial_registry.h"

#include "ding_worker/base/status_macros.h"

namespace ding {

void ReadSerialCollectorOptions(const SerialCollectorConfig& config,
                                SerialCollectorOptions* options) {
  options->collect_print_freq = config.collect_print_freq();
  options->max_abnormal = config.max_abnormal();
}

void ReadSerialEvaluatorOptions(const SerialEvaluatorConfig& config,
                                SerialEvaluatorOptions* options) {
  if (config.has_eval_freq()) options->eval_freq = config.eval_freq();
  options->n_episode = config.n_episode();
  options->stop_value = config.stop_value();
  options->max_abnormal = config.max_abnormal();
  options->max_episode_steps = config.max_episode_steps();
}

}  // namespace ding
