// The options that the off-policy algorithms with continuous actions share.
#ifndef DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_OPTIONS_H_
#define DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/field_schedules.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/policy.h"

namespace ding {

inline constexpr int kMaxLearnThreads = 64;

struct ContinuousOptions {
  uint64_t seed = 0;  // streams: "policy/collect", "policy/learn"
  AdamOptions actor_adam;
  AdamOptions critic_adam;
  double grad_clip_norm = 0;  // of the actor's and of the critics' gradient each; 0: not clipped
  double target_update_theta = 0.005;  // the targets move by this fraction, in (0, 1]
  // Training iterations between two steps of the actor, and between two moves of the targets; at least 1.
  int64_t actor_update_freq = 1;
  int64_t target_delay = 1;
  int learn_threads = 1;  // that share the passes of an update, 1 to kMaxLearnThreads
  // They change the settings kActorRate and kCriticRate (policy/scheduled_settings.h), and those that the algorithm adds.
  FieldSchedules schedules;
  std::optional<double>
      obs_clip;  // observations are normalized, and bounded by this; not set: they are not
  CollectAttributes collect;
  LearnAttributes learn;
  PolicyModes modes;
  // Averages gradients with the other learners of a group; null: a single learner. It must outlive the
  // policy.
  GradientReducer* reducer = nullptr;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_OPTIONS_H_
