// Bare CartPoles, for benchmarks: only the equations of kCount states,
// observations written to one array, and resets at the ends of episodes.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_ENV_CLASSIC_CONTROL_BARE_CARTPOLES_H_
#define DING_WORKER_ENV_CLASSIC_CONTROL_BARE_CARTPOLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/env/classic_control/cartpole.h"

namespace ding {

// Random actions that are drawn once and then repeated.
template <int kCount>
class CartPoleActions {
 public:
  CartPoleActions() : actions_(size_t{kRows} * kCount) {
    Rng rng(0, "benchmark/actions");
    for (int64_t& action : actions_) action = static_cast<int64_t>(rng.UniformInt(2));
  }

  // Returns the next kCount actions.
  const int64_t* Next() { return actions_.data() + next_++ % kRows * kCount; }

 private:
  static constexpr int kRows = 4096;
  std::vector<int64_t> actions_;
  size_t next_ = 0;
};

template <int kCount>
class BareCartPoles {
 public:
  BareCartPoles() {
    for (CartPoleState& state : states_) Start(&state);
  }

  // `actions` [kCount], `obs` [kCount, 4].
  void Step(const int64_t* actions, float* obs) {
    for (int i = 0; i < kCount; ++i) {
      CartPoleState& state = states_[i];
      const bool over = CartPoleStep(actions[i], &state).terminated || ++lengths_[i] == kTimeLimit;
      if (over) {
        Start(&state);
        lengths_[i] = 0;
      }
      obs[4 * i] = static_cast<float>(state.x);
      obs[4 * i + 1] = static_cast<float>(state.x_dot);
      obs[4 * i + 2] = static_cast<float>(state.theta);
      obs[4 * i + 3] = static_cast<float>(state.theta_dot);
    }
  }

 private:
  static constexpr int kTimeLimit = 500;

  void Start(CartPoleState* state) {
    for (double* const number : {&state->x, &state->x_dot, &state->theta, &state->theta_dot}) {
      *number = rng_.Uniform(-0.05, 0.05);
    }
  }

  Rng rng_{0, "benchmark/starts"};
  CartPoleState states_[kCount];
  int lengths_[kCount] = {};
};

}  // namespace ding

#endif  // DING_WORKER_ENV_CLASSIC_CONTROL_BARE_CARTPOLES_H_
