// Helpers for tests of recurrent actor-critic policies: policies on small networks, and a run of
// envs whose observations and ends of episodes are random.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_POLICY_ACTOR_CRITIC_TESTING_RECURRENT_RUN_H_
#define DING_WORKER_POLICY_ACTOR_CRITIC_TESTING_RECURRENT_RUN_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/policy.h"

namespace ding {

enum class Memory { kNone, kShared, kBoth, kActor, kCritic };

// Spaces, and which networks have memory. All but kShared have two networks.
struct RecurrentCase {
  std::string name;
  SpecPtr observation;
  SpecPtr action;
  Memory memory = Memory::kShared;
};

inline std::ostream& operator<<(std::ostream& out, const RecurrentCase& c) { return out << c.name; }

// Discrete, multi-discrete with a mask, and continuous actions, and each Memory but kNone.
std::vector<RecurrentCase> RecurrentCases();

// The options of a PPO without clipping of gradients, with samples of `unroll_len` rows.
ActorCriticPolicyOptions RecurrentOptions(int64_t unroll_len);

// Networks with memory are GRUs of 3 features, the others are linear.
absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> CreateRecurrent(
    const RecurrentCase& c, const ActorCriticPolicyOptions& options);

// Envs in which a collect mode acts. Equal seeds give equal observations, rewards and ends of
// episodes, whatever the actions are.
class RecurrentRun {
 public:
  static constexpr int kEnvs = 3;

  RecurrentRun(const RecurrentCase& c, uint64_t seed) : observation_(c.observation), seed_(seed) {}

  // Acts for `steps` steps in all envs, and returns the rows as a collector does.
  SegmentBatch Collect(CollectMode* collect, int64_t steps);

 private:
  const SpecPtr observation_;
  const uint64_t seed_;
  int64_t step_ = 0;
  SpecPtr rows_;
};

// Returns random rows and states as samples [rows] of `unroll_len` rows. The last row of every
// second sample is padding. For policy/policy_conformance.h.
Batch MakeRecurrentBatch(const RecurrentCase& c, int64_t unroll_len, int64_t rows, uint64_t seed);

}  // namespace ding

#endif  // DING_WORKER_POLICY_ACTOR_CRITIC_TESTING_RECURRENT_RUN_H_
