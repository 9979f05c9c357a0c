// For benchmarks: the network that DI-engine's CartPole example trains by DQN, and the floor of an
// update of DQN or another algorithm with its learn mode: the matrix products of three forward passes and one backward pass
// (policy/mlp/bare_products.h), the loss, and the Adam step, without biases, activations, checks and the
// update of the target network.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_DQN_BARE_UPDATE_H_
#define DING_WORKER_POLICY_DQN_BARE_UPDATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/dqn/q_head.h"
#include "ding_worker/policy/mlp/bare_products.h"
#include "ding_worker/policy/mlp/mlp_structure.h"

namespace ding {

SpecPtr CartPoleObservation();  // obs float32[4]
SpecPtr CartPoleAction();       // action, one of 2
SpecPtr CartPoleQ();            // q float32[2]
// 4-128-128-64, dueling.
MlpOptions CartPoleNetwork();
MlpStructure CartPoleStructure();

class BareDqnUpdate {
 public:
  // Run() updates on batches of `rows` transitions. The network reads CartPole's observations, and its output
  // fits `head`.
  explicit BareDqnUpdate(int64_t rows, const MlpStructure& structure = CartPoleStructure(),
                         std::unique_ptr<QHead> head = std::make_unique<ValueHead>());
  void Run();
  // The part of Run() that is the loss and its gradient.
  void RunLoss();

 private:
  const std::unique_ptr<QHead> head_;
  BareProducts products_;
  Adam adam_;
  const Batch batch_;
  std::vector<float> outputs_;
  std::vector<float> next_;
  std::vector<float> td_error_;
  std::vector<float> d_outputs_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DQN_BARE_UPDATE_H_
