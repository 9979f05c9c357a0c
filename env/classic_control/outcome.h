// The result of a step of a classic control problem, besides the new state.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_OUTCOME_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_OUTCOME_H_

namespace ding {

struct ClassicOutcome {
  double reward = 0;
  bool terminated = false;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_OUTCOME_H_
