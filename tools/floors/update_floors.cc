// Floors of updates: passes, loss, Adam and target networks, on one batch that stays. For SAC and
// TD3 no product is computed twice or without use.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "ding_worker/tools/floors/floors.h"
#include "ding_worker/tools/floors/network.h"

namespace floors {
namespace {

constexpr float kDiscount = 0.97f;
constexpr float kRate = 1e-3f;
constexpr float kShare = 0.005f;

void RequireNear(double found, double expected) {
  Require(std::abs(found - expected) < 1e-3 * (1 + std::abs(expected)),
          "an update differs from a naive one");
}

// Double DQN with CartPole's network, on a batch that stays, or on one drawn from `stored` rows.
class DqnUpdate {
 public:
  explicit DqnUpdate(size_t rows, size_t stored = 0)
      : online_(CartPoleNetwork()),
        target_(online_),
        pass_(online_, static_cast<int>(rows)),
        next_(pass_),
        next_target_(pass_),
        adam_(online_.parameters.size()),
        obs_(RandomFloats(rows * 4)),
        next_obs_(obs_.rbegin(), obs_.rend()),
        reward_(RandomFloats(rows)),
        action_(rows),
        best_(rows),
        stored_obs_(RandomFloats(4 * (stored + 1))),
        stored_reward_(RandomFloats(stored)),
        stored_action_(stored, 1),
        draw_(static_cast<uint32_t>(stored)),
        ids_(stored > 0 ? rows : 0) {
    for (size_t row = 0; row < rows; ++row) action_[row] = row % 2;
    CheckPasses(&online_, static_cast<int>(rows));
    const std::vector<float> before = online_.parameters;
    (*this)();
    for (size_t row = 0; row < rows; ++row) {
      const size_t best = next_.q[2 * row] < next_.q[2 * row + 1] ? 1 : 0;
      const double error = pass_.q[2 * row + action_[row]] - reward_[row] -
                           double{kDiscount} * next_target_.q[2 * row + best];
      RequireNear(pass_.d_q[2 * row + action_[row]], 2 * error / static_cast<double>(rows));
    }
    for (size_t i = 0; i < before.size(); ++i) {  // The first step of Adam has the same length.
      const float gradient = online_.gradients[i];
      const double step = std::abs(gradient) < 1e-5f ? 0 : std::copysign(kRate, gradient);
      if (step != 0) RequireNear((before[i] - online_.parameters[i]) / kRate, step / kRate);
      RequireNear(target_.parameters[i],
                  before[i] + double{kShare} * (online_.parameters[i] - before[i]));
    }
  }

  void operator()() {
    if (!ids_.empty()) Draw();
    Forward(online_, next_obs_.data(), &next_);
    Forward(target_, next_obs_.data(), &next_target_);
    Forward(online_, obs_.data(), &pass_);
    BestColumns(next_.q, &best_);
    std::fill(pass_.d_q.begin(), pass_.d_q.end(), 0.0f);
    const float scale = 2 / static_cast<float>(reward_.size());
    for (size_t row = 0; row < reward_.size(); ++row) {
      const size_t at = 2 * row + action_[row];
      const float value = next_target_.q[2 * row + static_cast<size_t>(best_[row])];
      pass_.d_q[at] = scale * (pass_.q[at] - reward_[row] - kDiscount * value);
    }
    Backward(&online_, obs_.data(), /*weights=*/true, &pass_);
    adam_.Step(&online_, kRate);
    Follow(online_.parameters, kShare, &target_.parameters);
  }

 private:
  void Draw() {
    draw_.Draw(&ids_);
    for (size_t row = 0; row < ids_.size(); ++row) {
      const float* const obs = &stored_obs_[4 * ids_[row]];
      std::memcpy(&obs_[4 * row], obs, 4 * sizeof(float));
      std::memcpy(&next_obs_[4 * row], obs + 4, 4 * sizeof(float));
      reward_[row] = stored_reward_[ids_[row]];
      action_[row] = stored_action_[ids_[row]];
    }
  }

  Network online_;
  Network target_;
  Pass pass_;
  Pass next_;
  Pass next_target_;
  Adam adam_;
  std::vector<float> obs_;
  std::vector<float> next_obs_;
  std::vector<float> reward_;
  std::vector<size_t> action_;
  std::vector<int64_t> best_;
  const std::vector<float> stored_obs_;  // each also the next one of the row before
  const std::vector<float> stored_reward_;
  const std::vector<size_t> stored_action_;
  DistinctDraw draw_;
  std::vector<uint32_t> ids_;
};

// Draws from the standard normal distribution, two numbers at a time (Box and Muller).
class Normal {
 public:
  void Fill(std::vector<float>* numbers) {
    for (size_t i = 0; i < numbers->size(); i += 2) {
      const float radius = std::sqrt(-2 * std::log(1 - random_.Uniform()));
      const float angle = 6.2831853f * random_.Uniform();
      (*numbers)[i] = radius * std::cos(angle);
      if (i + 1 < numbers->size()) (*numbers)[i + 1] = radius * std::sin(angle);
    }
  }

 private:
  Random random_;
};

// Two hidden layers of `width` in each network. SAC: a squashed normal distribution, the entropy's
// weight learned. TD3: noise on the actions of the target; the actor and all targets move at every
// second update.
class ActorCriticUpdate {
 public:
  ActorCriticUpdate(bool td3, int obs, int actions, int width, int rows)
      : td3_(td3),
        rows_(static_cast<size_t>(rows)),
        obs_size_(static_cast<size_t>(obs)),
        actions_(static_cast<size_t>(actions)),
        actor_(PlainNetwork(obs, width, 2, td3 ? actions : 2 * actions)),
        actor_target_(actor_),
        critics_(2, PlainNetwork(obs + actions, width, 2, 1)),
        targets_(critics_),
        actor_pass_(actor_, rows),
        critic_passes_(2, Pass(critics_[0], rows)),
        actor_adam_(actor_.parameters.size()),
        critic_adams_(2, Adam(critics_[0].parameters.size())),
        obs_(RandomFloats(rows_ * obs_size_)),
        next_obs_(obs_.rbegin(), obs_.rend()),
        reward_(RandomFloats(rows_)),
        inputs_(rows_ * (obs_size_ + actions_)),
        next_inputs_(inputs_),
        policy_inputs_(inputs_),
        noise_(rows_ * actions_),
        action_(noise_.size()),
        log_prob_(rows_),
        value_(rows_) {
    for (float& parameter : critics_[1].parameters) parameter = -parameter;
    targets_ = critics_;
    CheckPasses(&actor_, rows);
    CheckPasses(&critics_[0], rows);
    const std::vector<float> played = RandomFloats(noise_.size());
    Join(obs_, played, &inputs_);
    Join(next_obs_, played, &next_inputs_);
    Join(obs_, played, &policy_inputs_);
    Check();
  }

  void operator()() {
    UpdateCritics();
    if (td3_ && ++updates_ % 2 != 0) return;
    ComputeActorGradients();
    actor_adam_.Step(&actor_, kRate);
    if (!td3_) LearnAlpha();
    if (td3_) Follow(actor_.parameters, kShare, &actor_target_.parameters);
    for (size_t k = 0; k < 2; ++k) {
      Follow(critics_[k].parameters, kShare, &targets_[k].parameters);
    }
  }

 private:
  // Observations and actions, side by side.
  void Join(const std::vector<float>& obs, const std::vector<float>& action,
            std::vector<float>* inputs) const {
    float* to = inputs->data();
    for (size_t row = 0; row < rows_; ++row, to += obs_size_ + actions_) {
      std::memcpy(to, &obs[row * obs_size_], obs_size_ * sizeof(float));
    }
    SetActions(action, inputs);
  }
  void SetActions(const std::vector<float>& action, std::vector<float>* inputs) const {
    float* to = inputs->data() + obs_size_;
    for (size_t row = 0; row < rows_; ++row, to += obs_size_ + actions_) {
      std::memcpy(to, &action[row * actions_], actions_ * sizeof(float));
    }
  }

  // The actor's outputs and noise -> actions and, for SAC, the logarithms of their densities.
  void Act(bool noisy) {
    const std::vector<float>& outputs = actor_pass_.result();
    if (td3_) {
      for (size_t i = 0; i < action_.size(); ++i) {
        const float noise = noisy ? std::clamp(0.2f * noise_[i], -0.5f, 0.5f) : 0;
        action_[i] = std::clamp(std::tanh(outputs[i]) + noise, -1.0f, 1.0f);
      }
      return;
    }
    for (size_t row = 0; row < rows_; ++row) {
      const float* const mean = &outputs[row * 2 * actions_];
      float log_prob = 0;
      for (size_t i = 0; i < actions_; ++i) {
        const size_t at = row * actions_ + i;
        const float log_std = std::clamp(mean[actions_ + i], -20.0f, 2.0f);
        action_[at] = std::tanh(mean[i] + std::exp(log_std) * noise_[at]);
        log_prob -= 0.5f * noise_[at] * noise_[at] + log_std + 0.9189385f +
                    std::log(1 - action_[at] * action_[at] + 1e-6f);
      }
      log_prob_[row] = log_prob;
    }
  }

  void UpdateCritics() {
    normal_.Fill(&noise_);
    Forward(td3_ ? actor_target_ : actor_, next_obs_.data(), &actor_pass_);
    Act(/*noisy=*/true);
    SetActions(action_, &next_inputs_);
    for (size_t k = 0; k < 2; ++k) Forward(targets_[k], next_inputs_.data(), &critic_passes_[k]);
    for (size_t row = 0; row < rows_; ++row) {
      const float least =
          std::min(critic_passes_[0].result()[row], critic_passes_[1].result()[row]);
      value_[row] = reward_[row] + kDiscount * (least - (td3_ ? 0 : alpha_ * log_prob_[row]));
    }
    for (size_t k = 0; k < 2; ++k) {
      Pass* const pass = &critic_passes_[k];
      Forward(critics_[k], inputs_.data(), pass);
      for (size_t row = 0; row < rows_; ++row) {
        pass->d_result()[row] = 2 * (pass->result()[row] - value_[row]) / static_cast<float>(rows_);
      }
      Backward(&critics_[k], inputs_.data(), /*weights=*/true, pass);
      critic_adams_[k].Step(&critics_[k], kRate);
    }
  }

  // The loss is alpha log_prob - the least value; for TD3, - the value of the first critic.
  void ComputeActorGradients() {
    if (!td3_) normal_.Fill(&noise_);
    ActorLoss();
    for (size_t k = 0; k < (td3_ ? 1 : 2); ++k) {
      Pass* const pass = &critic_passes_[k];
      for (size_t row = 0; row < rows_; ++row) {
        const bool counts = (td3_ || SecondIsLess(row)) == (td3_ || k == 1);
        pass->d_result()[row] = counts ? -1 / static_cast<float>(rows_) : 0;
      }
      d_actions_[k].resize(action_.size());
      Backward(&critics_[k], policy_inputs_.data(), /*weights=*/false, pass, d_actions_[k].data(),
               static_cast<int>(obs_size_));
    }
    std::vector<float>& d_outputs = actor_pass_.d_result();
    const float scale = alpha_ / static_cast<float>(rows_);
    for (size_t row = 0; row < rows_; ++row) {
      for (size_t i = 0; i < actions_; ++i) {
        const size_t at = row * actions_ + i;
        const float a = action_[at];
        const float slope = 1 - a * a;
        if (td3_) {
          d_outputs[at] = d_actions_[0][at] * slope;
          continue;
        }
        const size_t mean = row * 2 * actions_ + i;
        const float log_std = actor_pass_.result()[mean + actions_];
        const float d_before =
            (d_actions_[0][at] + d_actions_[1][at] + scale * 2 * a / (slope + 1e-6f)) * slope;
        d_outputs[mean] = d_before;
        d_outputs[mean + actions_] =
            log_std < -20 || log_std > 2 ? 0 : d_before * std::exp(log_std) * noise_[at] - scale;
      }
    }
    Backward(&actor_, obs_.data(), /*weights=*/true, &actor_pass_);
  }

  // Computes it for the noise at hand.
  double ActorLoss() {
    Forward(actor_, obs_.data(), &actor_pass_);
    Act(/*noisy=*/false);
    SetActions(action_, &policy_inputs_);
    for (size_t k = 0; k < (td3_ ? 1 : 2); ++k) {
      Forward(critics_[k], policy_inputs_.data(), &critic_passes_[k]);
    }
    double loss = 0;
    for (size_t row = 0; row < rows_; ++row) {
      float least = critic_passes_[0].result()[row];
      if (!td3_) least = std::min(least, critic_passes_[1].result()[row]);
      loss += (td3_ ? 0 : alpha_ * log_prob_[row]) - least;
    }
    return loss / static_cast<double>(rows_);
  }

  bool SecondIsLess(size_t row) {
    return critic_passes_[1].result()[row] < critic_passes_[0].result()[row];
  }

  // Adam on the logarithm of alpha, towards an entropy of one per action.
  void LearnAlpha() {
    double sum = 0;
    for (const float log_prob : log_prob_) sum += log_prob - static_cast<float>(actions_);
    const auto gradient = static_cast<float>(-sum / static_cast<double>(rows_)) * alpha_;
    ++alpha_steps_;
    alpha_first_ = 0.9f * alpha_first_ + 0.1f * gradient;
    alpha_second_ = 0.999f * alpha_second_ + 0.001f * gradient * gradient;
    const float first = alpha_first_ / (1 - std::pow(0.9f, alpha_steps_));
    const float second = alpha_second_ / (1 - std::pow(0.999f, alpha_steps_));
    log_alpha_ -= kRate * first / (std::sqrt(second) + 1e-8f);
    alpha_ = std::exp(log_alpha_);
  }

  // Compares the values to reach with the definition, and the gradients of the actor with
  // differences of its loss.
  void Check() {
    actor_.parameters[actor_.layers.back().bias] += 1;  // an action far from 0
    UpdateCritics();
    Pass passes[2] = {Pass(targets_[0], static_cast<int>(rows_)), critic_passes_[0]};
    for (size_t k = 0; k < 2; ++k) Forward(targets_[k], next_inputs_.data(), &passes[k]);
    for (size_t row = 0; row < rows_; ++row) {
      double value = std::min(passes[0].result()[row], passes[1].result()[row]);
      for (size_t i = 0; !td3_ && i < actions_; ++i) {
        const float* const mean = &actor_pass_.result()[row * 2 * actions_];
        const double noise = noise_[row * actions_ + i];
        const double action = std::tanh(mean[i] + std::exp(double{mean[actions_ + i]}) * noise);
        value += noise * noise / 2 + mean[actions_ + i] + std::log(2 * M_PI) / 2 +
                 std::log(1 - action * action);
      }
      RequireNear(value_[row], reward_[row] + kDiscount * value);
    }
    ComputeActorGradients();
    const std::vector<float> gradients = actor_.gradients;
    const Layer& last = actor_.layers.back();
    constexpr float kStep = 1e-3f;
    for (const size_t i : {last.weight + 3, last.weight + 7, last.bias, gradients.size() - 1}) {
      const float value = actor_.parameters[i];
      actor_.parameters[i] = value + kStep;
      const double above = ActorLoss();
      actor_.parameters[i] = value - kStep;
      const double below = ActorLoss();
      actor_.parameters[i] = value;
      const double difference = (above - below) / (2 * kStep);
      Require(std::abs(difference - gradients[i]) < 1e-4 + 0.004 * std::abs(difference),
              "a gradient of the actor differs from a difference of its loss");
    }
  }

  const bool td3_;
  const size_t rows_;
  const size_t obs_size_;
  const size_t actions_;
  Network actor_;
  Network actor_target_;  // of TD3
  std::vector<Network> critics_;
  std::vector<Network> targets_;
  Pass actor_pass_;
  std::vector<Pass> critic_passes_;
  Adam actor_adam_;
  std::vector<Adam> critic_adams_;
  const std::vector<float> obs_;
  const std::vector<float> next_obs_;
  const std::vector<float> reward_;
  std::vector<float> inputs_;         // [rows, observation and action of the batch]
  std::vector<float> next_inputs_;    // with the next observation, and an action of the actor
  std::vector<float> policy_inputs_;  // with an action of the actor
  Normal normal_;
  std::vector<float> noise_;
  std::vector<float> action_;
  std::vector<float> log_prob_;
  std::vector<float> value_;
  std::vector<float> d_actions_[2];
  int64_t updates_ = 0;
  float log_alpha_ = 0;
  float alpha_ = 1;
  float alpha_first_ = 0;
  float alpha_second_ = 0;
  float alpha_steps_ = 0;
};

}  // namespace

void AddUpdateFloors() {
  for (const size_t rows : {64, 256}) {
    AddFloor("dqn_benchmark:Update/" + std::to_string(rows), 0, 1,
             [rows] { return DqnUpdate(rows); });
  }
  AddFloor("serial_pipeline_benchmark:Train", 0.8, 1,
           [] { return DqnUpdate(64, /*stored=*/20000); });
  for (const bool td3 : {false, true}) {
    const std::string name = td3 ? "sac_benchmark:Td3Update/" : "sac_benchmark:SacUpdate/";
    AddFloor(name + "64", 0.95, 1, [td3] { return ActorCriticUpdate(td3, 3, 1, 64, 100); });
    AddFloor(name + "256", 0.95, 1, [td3] { return ActorCriticUpdate(td3, 17, 6, 256, 256); });
  }
}

}  // namespace floors
