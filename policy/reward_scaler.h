// Rewards divided by the running standard deviation of the discounted return, so that values have a
// size of about 1 whatever the env's rewards are.
//
//   R_t = r_t + gamma R_(t-1) within an episode of a stream;  scaled r_t = r_t / sqrt(Var(R) +
//   1e-8)
//
// The rewards are not centred: a constant would change what the best policy is. As in the reward
// scaling of the PPO authors' code; see Engstrom et al. 2020 ("Implementation matters in deep
// policy gradients", section 3).
//
// The rows of a call count before they are scaled, so that the first ones are scaled too.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_REWARD_SCALER_H_
#define DING_WORKER_POLICY_REWARD_SCALER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/running_normalizer.h"

namespace ding {

class RewardScaler {
 public:
  explicit RewardScaler(double gamma);

  // Scales `reward` [rows of the segments] in place. Segments of a stream come in their order.
  void Scale(absl::Span<const Segment> segments, absl::Span<float> reward);

  // Statistics, and the running return of each stream.
  absl::Status SaveState(StateWriter* writer) const;
  absl::Status LoadState(StateReader* reader);

 private:
  double gamma_;
  RunningNormalizer statistics_;
  std::map<int64_t, double> running_;  // by stream
  std::vector<float> returns_;         // working space
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_REWARD_SCALER_H_
