// The options that the algorithms of Q-learning share: DQN (policy/dqn/dqn.h) and R2D2 (policy/r2d2/r2d2.h).
#ifndef DING_WORKER_POLICY_DQN_DQN_OPTIONS_H_
#define DING_WORKER_POLICY_DQN_DQN_OPTIONS_H_

#include <cstdint>

#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/field_schedules.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/schedule.h"
#include "ding_worker/policy/target_update.h"

namespace ding {

struct DqnOptions {
  uint64_t seed = 0;  // exploration uses the stream (seed, "policy/collect")
  AdamOptions adam;
  double lr_decay_env_steps = 0;  // the rate falls linearly to 0 within these; 0: it is constant
  double grad_clip_norm = 0;      // maximal norm of the gradient; 0: not clipped
  TdLossOptions loss;
  bool double_q = true;  // false: the target network also chooses the action that it evaluates
  TargetUpdate target_update;
  Schedule eps;
  FieldSchedules schedules;  // of the settings "lr" and "eps"; they replace what is above
  CollectAttributes collect;
  LearnAttributes learn;
  PolicyModes modes;
  // Averages gradients with the other learners of a group; null: a single learner. It must outlive the
  // policy.
  GradientReducer* reducer = nullptr;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_DQN_DQN_OPTIONS_H_
