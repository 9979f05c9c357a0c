// Floors of CartPole: the equations in doubles, as Gymnasium has them, on arrays.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ding_worker/tools/floors/floors.h"
#include "ding_worker/tools/floors/network.h"

namespace floors {
namespace {

constexpr size_t kEnvs = 8;

// Steps of kEnvs envs, which begin again at the end of an episode.
class CartPoles {
 public:
  CartPoles() {
    for (size_t i = 0; i < kEnvs; ++i) Start(i);
    Check();
  }

  void Step(const int64_t* actions) {
    for (size_t i = 0; i < kEnvs; ++i) {
      const double cosine = std::cos(theta_[i]);
      const double sine = std::sin(theta_[i]);
      const double force = actions[i] != 0 ? 10 : -10;
      const double push = (force + 0.05 * theta_dot_[i] * theta_dot_[i] * sine) / 1.1;
      const double theta_acc =
          (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3 - 0.1 * cosine * cosine / 1.1));
      const double x_acc = push - 0.05 * theta_acc * cosine / 1.1;
      x_[i] += 0.02 * x_dot_[i];
      x_dot_[i] += 0.02 * x_acc;
      theta_[i] += 0.02 * theta_dot_[i];
      theta_dot_[i] += 0.02 * theta_acc;
      terminated[i] = std::abs(x_[i]) > 2.4 || std::abs(theta_[i]) > 12 * 2 * M_PI / 360;
      truncated[i] = ++lengths_[i] == 500;
      Observe(i, &obs[4 * i]);
      reward[i] = 1;
      if (!terminated[i] && !truncated[i]) continue;
      std::memcpy(&final_obs[4 * i], &obs[4 * i], 4 * sizeof(float));
      Start(i);
    }
  }

  float obs[4 * kEnvs];
  float final_obs[4 * kEnvs];  // of an episode that is over
  float reward[kEnvs];
  bool terminated[kEnvs];
  bool truncated[kEnvs];

 private:
  void Start(size_t i) {
    for (double* const number : {&x_[i], &x_dot_[i], &theta_[i], &theta_dot_[i]}) {
      *number = 0.1 * random_.Uniform() - 0.05;
    }
    lengths_[i] = 0;
    Observe(i, &obs[4 * i]);
  }
  void Observe(size_t i, float* to) const {
    to[0] = static_cast<float>(x_[i]);
    to[1] = static_cast<float>(x_dot_[i]);
    to[2] = static_cast<float>(theta_[i]);
    to[3] = static_cast<float>(theta_dot_[i]);
  }

  // Compares one step with the equations in the words of Barto, Sutton and Anderson, without
  // friction: masses 1 and 0.1, half length 0.5.
  void Check() {
    const long double x_dot = x_dot_[0], theta = theta_[0], omega = theta_dot_[0], x = x_[0];
    const int64_t actions[kEnvs] = {1};
    Step(actions);
    const long double total = 1.1L, pole = 0.05L;
    const long double force = (-10 - pole * omega * omega * std::sin(theta)) / total;
    const long double angular =
        (9.8L * std::sin(theta) + std::cos(theta) * force) /
        (0.5L * (4.0L / 3 - 0.1L * std::cos(theta) * std::cos(theta) / total));
    const long double linear =
        (10 + pole * (omega * omega * std::sin(theta) - angular * std::cos(theta))) / total;
    const long double expected[4] = {x + 0.02L * x_dot, x_dot + 0.02L * linear,
                                     theta + 0.02L * omega, omega + 0.02L * angular};
    for (int i = 0; i < 4; ++i) {
      Require(std::abs(expected[i] - obs[i]) < 1e-6, "a step differs from the equations");
    }
  }

  Random random_;
  double x_[kEnvs];
  double x_dot_[kEnvs];
  double theta_[kEnvs];
  double theta_dot_[kEnvs];
  int lengths_[kEnvs];
};

// Random actions that are drawn once.
class Actions {
 public:
  Actions() : actions_(kRows * kEnvs) {
    Random random;
    for (int64_t& action : actions_) action = static_cast<int64_t>(random.Next() >> 63);
  }
  const int64_t* Next() { return &actions_[next_++ % kRows * kEnvs]; }

 private:
  static constexpr size_t kRows = 4096;
  std::vector<int64_t> actions_;
  size_t next_ = 0;
};

// The rows of `steps` steps of each env, env by env, with the observation behind the last.
struct Segments {
  explicit Segments(size_t steps)
      : steps(steps),
        obs(steps * kEnvs * 4),
        final_obs(kEnvs * 4),
        action(steps * kEnvs),
        reward(action.size()),
        collect_iter(action.size()),
        terminated(action.size()),
        truncated(action.size()) {}

  void Add(size_t step, const float* before, const int64_t* actions, const CartPoles& envs) {
    for (size_t env = 0; env < kEnvs; ++env) {
      const size_t row = env * steps + step;
      std::memcpy(&obs[4 * row], before + 4 * env, 4 * sizeof(float));
      action[row] = actions[env];
      reward[row] = envs.reward[env];
      collect_iter[row] = 3;
      terminated[row] = envs.terminated[env];
      truncated[row] = envs.truncated[env];
    }
    if (step + 1 < steps) return;
    for (size_t env = 0; env < kEnvs; ++env) {
      const bool over = envs.terminated[env] || envs.truncated[env];
      std::memcpy(&final_obs[4 * env], (over ? envs.final_obs : envs.obs) + 4 * env,
                  4 * sizeof(float));
    }
  }

  const size_t steps;
  std::vector<float> obs;
  std::vector<float> final_obs;
  std::vector<int64_t> action;
  std::vector<float> reward;
  std::vector<int64_t> collect_iter;
  std::vector<char> terminated;
  std::vector<char> truncated;
};

// Collects `rows` rows with actions of a table or, `by_network`, the best ones.
class Collect {
 public:
  Collect(size_t rows, bool by_network)
      : network_(CartPoleNetwork()),
        pass_(network_, kEnvs),
        segments_(rows / kEnvs),
        by_network_(by_network),
        best_(kEnvs) {
    CheckPasses(&network_, kEnvs);
  }
  void operator()() {
    for (size_t step = 0; step < segments_.steps; ++step) {
      float before[4 * kEnvs];
      std::memcpy(before, envs_.obs, sizeof(before));
      const int64_t* actions = actions_.Next();
      if (by_network_) {
        Forward(network_, before, &pass_);
        BestColumns(pass_.result(), &best_);
        actions = best_.data();
      }
      envs_.Step(actions);
      segments_.Add(step, before, actions, envs_);
    }
  }

 private:
  Network network_;
  Pass pass_;
  CartPoles envs_;
  Actions actions_;
  Segments segments_;
  const bool by_network_;
  std::vector<int64_t> best_;
};

}  // namespace

void AddEnvFloors() {
  AddFloor("base_env_manager_benchmark:Manager", 0.9, kEnvs, [] {
    return [envs = CartPoles(), actions = Actions()]() mutable {
      envs.Step(actions.Next());
      benchmark::DoNotOptimize(envs);
    };
  });
  AddFloor("sample_serial_collector_benchmark:Collect/8", 0.7, 8,
           [] { return Collect(8, /*by_network=*/false); });
  AddFloor("sample_serial_collector_benchmark:Collect/1024", 0.8, 1024,
           [] { return Collect(1024, /*by_network=*/false); });
  AddFloor("serial_pipeline_benchmark:Collect", 0.5, 8,
           [] { return Collect(8, /*by_network=*/true); });
}

}  // namespace floors
