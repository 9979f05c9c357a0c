// Creates the kind of pipeline that a config asks for.
#ifndef DING_WORKER_WORKER_SERIAL_RUN_CREATE_PIPELINE_H_
#define DING_WORKER_WORKER_SERIAL_RUN_CREATE_PIPELINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/serial_run/pipeline.h"

namespace ding {

// Creates a SupervisedPipeline if the config has a data set, else a SerialPipeline. Errors are
// those of their Create().
absl::StatusOr<std::unique_ptr<Pipeline>> CreatePipeline(const ExperimentConfig& config,
                                                         const SerialOptions& options);

}  // namespace ding

#endif  // DING_WORKER_WORKER_SERIAL_RUN_CREATE_PIPELINE_H_
