// The losses of our policies as functions of tensors, to compare: "td_autograd" is that of dqn,
// "ppo_autograd", "critics_autograd" that of sac, td3 and ddpg, "sac_actor_autograd",
// "td3_actor_autograd" and "munchausen_autograd". policy/loss has the formulas.
#include <algorithm>
#include <string>
#include <vector>

#include "ATen/ATen.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/torch/torch_loss.h"
#include "torch/types.h"

namespace ding {
namespace {

torch::Tensor TdLoss(const TorchBatch& batch, const Outputs& outputs, const Outputs& target) {
  const auto q = outputs["q"].gather(1, batch["action"].unsqueeze(1)).squeeze(1);
  return torch::square(q - batch["reward"] - batch["discount"] * target["next_value"]);
}

// Vieillard et al. 2020 ("Munchausen reinforcement learning", eq. 1), with their tau, alpha and
// bound.
TorchLossValue Munchausen(const TorchBatch& batch, const Outputs& outputs, const Outputs& target) {
  constexpr double kTau = 0.03;
  const auto action = batch["action"].unsqueeze(1);
  const auto log_pi = torch::log_softmax(target["q"] / kTau, 1).gather(1, action).squeeze(1);
  const auto next_pi = torch::softmax(target["next_q"] / kTau, 1);
  const auto next_log_pi = torch::log_softmax(target["next_q"] / kTau, 1);
  const auto next_value = (next_pi * (target["next_q"] - kTau * next_log_pi)).sum(1);
  const auto reward = batch["reward"] + 0.9 * torch::clamp(kTau * log_pi, -1, 0);
  const auto td =
      outputs["q"].gather(1, action).squeeze(1) - reward - batch["discount"] * next_value;
  TorchLossValue value(torch::square(td));
  value.td_error = td;
  return value;
}

TorchLossValue PpoLoss(const TorchBatch& batch, const Outputs& outputs, const Outputs& target) {
  const auto ratio = torch::exp(outputs["log_prob"] - target["log_prob"]);
  const double clip = batch.number("clip_ratio");
  const auto policy =
      -torch::min(ratio * batch["adv"], torch::clamp(ratio, 1 - clip, 1 + clip) * batch["adv"]);
  auto value = torch::square(outputs["value"] - batch["return"]) / 2;
  if (const double bound = batch.number("value_clip"); bound > 0) {
    const auto move = torch::clamp(outputs["value"] - target["value"], -bound, bound);
    value = torch::max(value, torch::square(target["value"] + move - batch["return"]) / 2);
  }
  TorchLossValue loss(policy + batch.number("value_weight") * value -
                      batch.number("entropy_weight") * outputs["entropy"]);
  const auto& weight = batch["weight"];
  loss.scalars = {{"policy_loss", (policy * weight).sum() / weight.sum()}};
  return loss;
}

torch::Tensor CriticsLoss(const TorchBatch& batch, const Outputs& outputs, const Outputs& target) {
  const auto goal = batch["reward"] + batch["discount"] * target["next_value"];
  torch::Tensor loss = torch::zeros_like(goal);
  for (const auto& output : outputs.all()) loss = loss + torch::square(output.second - goal);
  return loss;
}

torch::Tensor SacActorLoss(const TorchBatch& batch, const Outputs& outputs, const Outputs&) {
  const auto q = torch::min(outputs["q0"], outputs["q1"]);
  return batch.number("alpha") * outputs["log_prob"] - q;
}

torch::Tensor Td3ActorLoss(const TorchBatch&, const Outputs& outputs, const Outputs&) {
  return -outputs["q0"].mean();
}

DING_REGISTER(LossRegistry(), "td_autograd", TorchLoss(TdLoss), "that of dqn");
DING_REGISTER(LossRegistry(), "munchausen_autograd",
              TorchLoss(Munchausen, {/*reads_target_of_obs=*/true}), "that of Munchausen-DQN");
DING_REGISTER(LossRegistry(), "ppo_autograd", TorchLoss(PpoLoss), "that of ppo");
DING_REGISTER(LossRegistry(), "critics_autograd", TorchLoss(CriticsLoss), "that of critics");
DING_REGISTER(LossRegistry(), "sac_actor_autograd", TorchLoss(SacActorLoss), "that of sac's actor");
DING_REGISTER(LossRegistry(), "td3_actor_autograd", TorchLoss(Td3ActorLoss), "that of td3's actor");

}  // namespace
}  // namespace ding
