// The parts that benchmarks measure alone: the workers of worker/configs/cartpole_dqn.textproto,
// called one by one, and a network with nothing around it.
//
// The working folder must be the root of the checkout (or of a test's runfiles). Errors end the
// program.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_WORKER_TESTING_BENCHMARK_PARTS_H_
#define DING_WORKER_WORKER_TESTING_BENCHMARK_PARTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/pipeline/serial_pipeline.h"

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

  // Pushes `rows` rows, collected by a policy that always explores.
  void FillBuffer(int64_t rows);

 private:
  std::string folder_;
  std::unique_ptr<SerialPipeline> pipeline_;
};

// One network of the shipped PPO configs, 64-64 with tanh, with memory for its passes and nothing
// around it: the baseline of benchmarks.
//
// Example:
//   BareNetwork actor(/*envs=*/8, /*obs_size=*/4, Box("logit", {2}));
//   actor.Infer();
class BareNetwork {
 public:
  static constexpr int64_t kMinibatchRows = 64;

  // `envs` is the number of rows of Infer(), at most kMinibatchRows; `obs_size` is the number of
  // float32 values of a row.
  BareNetwork(int64_t envs, int64_t obs_size, const FieldSpec& output);

  // The forward pass for one step of all envs.
  void Infer();
  // Both passes for one minibatch.
  void ForwardBackward();

 private:
  const int64_t envs_;
  const SpecPtr obs_;
  const Batch input_;
  const std::unique_ptr<Mlp> network_;
  BatchBuilder output_;
  BatchBuilder d_output_;
};

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_BENCHMARK_PARTS_H_
