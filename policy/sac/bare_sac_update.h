// For benchmarks: the floor of an update of SAC or TD3. It computes the matrix products that the update needs on
// OpenBLAS with one thread (policy/mlp/bare_products.h), and takes the Adam steps, without biases, activations, losses,
// noise, checks and targets:
//
//   targets  forward of the actor and of both critics on next_obs
//   critics  forward of both, backward to their weights
//   actor    forward of actor and critics, backward of the critics to the actions alone, backward of the actor
//
// TD3 computes the last part every second time, and through one critic.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_SAC_BARE_SAC_UPDATE_H_
#define DING_WORKER_POLICY_SAC_BARE_SAC_UPDATE_H_

#include <cstdint>
#include <vector>

#include "ding_worker/data/spec.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/mlp/bare_products.h"
#include "ding_worker/policy/mlp/mlp_structure.h"

namespace ding {

// The networks of a task whose observations and actions have so many elements.
struct ContinuousTask {
  SpecPtr observation;
  SpecPtr action;
  MlpOptions hidden;  // two layers of `width`
};
ContinuousTask MakeContinuousTask(int64_t observation, int64_t action, int64_t width);

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

#endif  // DING_WORKER_POLICY_SAC_BARE_SAC_UPDATE_H_
