// The workers of worker/configs/cartpole_dqn.textproto, for benchmarks that call them one by one.
//
// The working folder must be the root of the checkout (or of a test's runfiles). Errors end the
// program.
#ifndef DING_WORKER_WORKER_TESTING_CARTPOLE_PIPELINE_H_
#define DING_WORKER_WORKER_TESTING_CARTPOLE_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/metrics/sink.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/serial_run/serial_pipeline.h"

namespace ding {

inline constexpr char kCartPoleConfig[] = "worker/configs/cartpole_dqn.textproto";

// Loads the config and changes it by `settings` ("path=value").
ExperimentConfig LoadCartPoleConfig(const std::vector<std::string>& settings = {});

// A pipeline in a temporary folder, which is removed with it. Only warnings and errors are logged.
class CartPolePipeline {
 public:
  explicit CartPolePipeline(const ExperimentConfig& config,
                            std::shared_ptr<MetricSink> metrics = std::make_shared<NullSink>());
  CartPolePipeline(const CartPolePipeline&) = delete;
  CartPolePipeline& operator=(const CartPolePipeline&) = delete;
  ~CartPolePipeline();

  SerialPipeline* get() { return pipeline_.get(); }
  SerialPipeline* operator->() { return pipeline_.get(); }

  // Pushes `rows` rows that a policy collects which always explores.
  void FillBuffer(int64_t rows);

 private:
  std::string folder_;
  std::unique_ptr<SerialPipeline> pipeline_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_CARTPOLE_PIPELINE_H_
