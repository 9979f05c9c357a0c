// The spaces of CartPole, and the network of worker/configs/cartpole_dqn.textproto, for benchmarks.
//
// Threads: any.
#ifndef DING_WORKER_POLICY_TESTING_CARTPOLE_NETWORK_H_
#define DING_WORKER_POLICY_TESTING_CARTPOLE_NETWORK_H_

#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"

namespace ding {

SpecPtr CartPoleObservation();  // obs float32[4]
SpecPtr CartPoleAction();       // action int64 of 2
SpecPtr CartPoleQ();            // q float32[2]
// 4-128-128-64, dueling.
MlpOptions CartPoleNetwork();

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_CARTPOLE_NETWORK_H_
