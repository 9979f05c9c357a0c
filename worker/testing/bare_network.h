// One network of the shipped PPO configs, 64-64 with tanh, with memory for its passes and nothing
// around it: the floor of benchmarks.
//
// Threads: thread-compatible.
// Errors:  a pass that fails ends the program.
//
// Example:
//   BareNetwork actor(/*envs=*/8, /*obs_size=*/4, Box("logit", {2}));
//   actor.Infer();
#ifndef DING_WORKER_WORKER_TESTING_BARE_NETWORK_H_
#define DING_WORKER_WORKER_TESTING_BARE_NETWORK_H_

#include <cstdint>
#include <memory>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"

namespace ding {

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

#endif  // DING_WORKER_WORKER_TESTING_BARE_NETWORK_H_
