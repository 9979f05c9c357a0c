// A network whose outputs depend on random numbers besides input and parameters: noisy layers
// (policy/noisy_network.h), or sampled fractions of quantiles (policy/distributional/iqn_network.h).
//
// It keeps its numbers between calls, equal for all rows of a batch, and does not draw by itself: each mode of
// a policy draws from a stream of its own before a pass, so that equal seeds give equal bytes. At first the
// numbers are those of UseMeans().
//
// Ownership, threads, errors: as policy/network.h.
#ifndef DING_WORKER_POLICY_RANDOM_NETWORK_H_
#define DING_WORKER_POLICY_RANDOM_NETWORK_H_

#include "ding_worker/base/rng.h"
#include "ding_worker/policy/network.h"

namespace ding {

class RandomNetwork : public Network {
 public:
  // Replaces the numbers by new ones.
  virtual void Draw(Rng* rng) = 0;
  // Replaces them by numbers without chance, with which the network acts when it does not explore.
  virtual void UseMeans() = 0;
};

// Returns `network` as a random one, or null if it is not.
inline RandomNetwork* AsRandom(Network* network) { return dynamic_cast<RandomNetwork*>(network); }

}  // namespace ding

#endif  // DING_WORKER_POLICY_RANDOM_NETWORK_H_
