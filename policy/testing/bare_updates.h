// Lower bounds for the times of updates of DQN, SAC and TD3 ("floors"), for benchmarks: the matrix
// products that an update needs, on OpenBLAS with one thread (policy/testing/bare_products.h), and
// the Adam steps.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_TESTING_BARE_UPDATES_H_
#define DING_WORKER_POLICY_TESTING_BARE_UPDATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/testing/bare_products.h"

namespace ding {

// The network that DI-engine's CartPole example trains by DQN.
SpecPtr CartPoleObservation();  // obs float32[4]
SpecPtr CartPoleAction();       // action, one of 2
SpecPtr CartPoleQ();            // q float32[2]
// 4-128-128-64, dueling.
MlpOptions CartPoleNetwork();
MlpStructure CartPoleStructure();

// The floor of an update of DQN, or of another algorithm with its learn mode: the products of three
// forward passes and one backward pass, the loss, and the Adam step, without biases, activations,
// checks and the update of the target network.
class BareDqnUpdate {
 public:
  // Run() updates on batches of `rows` transitions. The network reads CartPole's observations, and
  // its output fits `head`.
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

// The spaces and hidden layers of a task with continuous actions.
struct ContinuousTask {
  SpecPtr observation;
  SpecPtr action;
  MlpOptions hidden;  // two layers of `width`
};
ContinuousTask MakeContinuousTask(int64_t observation, int64_t action, int64_t width);

// The floor of an update of SAC or TD3: the products and the Adam steps, without biases,
// activations, losses, noise, checks and targets:
//
//   targets  forward of the actor and of both critics on next_obs
//   critics  forward of both, backward to their weights
//   actor    forward of actor and critics, backward of the critics to the actions alone, backward
//            of the actor
//
// TD3 computes the part of the actor every second time, and through one critic.
class BareSacUpdate {
 public:
  BareSacUpdate(const ContinuousTask& task, bool td3, int64_t rows);
  void Run();

 private:
  const bool td3_;
  int64_t runs_ = 0;
  BareProducts actor_;
  std::vector<BareProducts> critics_;
  Adam actor_adam_;
  std::vector<Adam> critic_adams_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_BARE_UPDATES_H_
