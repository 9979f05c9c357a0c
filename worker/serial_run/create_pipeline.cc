#include "ding_worker/worker/serial_run/create_pipeline.h"

#include "ding_worker/worker/config/experiment_config.h"
#include "ding_worker/worker/serial_run/serial_pipeline.h"
#include "ding_worker/worker/serial_run/supervised_pipeline.h"

namespace ding {

absl::StatusOr<std::unique_ptr<Pipeline>> CreatePipeline(const ExperimentConfig& config,
                                                         const SerialOptions& options) {
  if (IsSupervised(config)) return SupervisedPipeline::Create(config, options);
  return SerialPipeline::Create(config, options);
}

}  // namespace ding
