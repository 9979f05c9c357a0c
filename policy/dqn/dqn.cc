#include "ding_worker/policy/dqn/dqn.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/loss_columns.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/q_learning/q_policy.h"

namespace ding {
namespace {

constexpr Rng::Purpose kNoisePurpose("policy/learn/noise");

class DqnLearn : public QLearnMode {
 public:
  DqnLearn(QNetwork* q_network, const DqnOptions& options, Parts parts)
      : QLearnMode(q_network, options, std::move(parts)),
        noise_seed_(options.seed),
        reader_(q_network->observation(), q_network->action()),
        outputs_(q_network->network().output_spec()),
        d_outputs_(q_network->network().output_spec()),
        next_outputs_(q_network->network().output_spec()),
        next_target_outputs_(q_network->network().output_spec()),
        target_outputs_(q_network->network().output_spec()) {
    if (AsRandom(&network().network()) != nullptr) state()->AddSeed("noise_seed", &noise_seed_);
  }

 private:
  absl::StatusOr<QLoss> ComputeLoss(const Batch& data) override {
    DING_ASSIGN_OR_RETURN(const TransitionView batch, reader_.Read(data));
    DrawRandomNumbers();
    DING_RETURN_IF_ERROR(ComputeTarget(batch));
    Network& online = network().network();
    DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(data.rows()));
    DING_RETURN_IF_ERROR(online.Forward(network().Inputs(batch.obs), outputs));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs, d_outputs_.Rows(data.rows()));
    td_error_.resize(static_cast<size_t>(data.rows()));
    TdLossResult result = network().head().ComputeLoss(
        {outputs.column<float>(0), batch.action.column<int64_t>(0), reward_, batch.discount, next_,
         batch.weight, network().MaskOf(batch.obs)},
        absl::MakeSpan(td_error_), d_outputs.column<float>(0));
    NamedValues scalars;
    if (std::isfinite(result.loss) && options().own_loss != nullptr) {
      DING_ASSIGN_OR_RETURN(
          LossValue own, ComputeOwn(batch, outputs.column<float>(0), d_outputs.column<float>(0)));
      result.loss = own.loss;
      scalars = std::move(own.scalars);
    }
    if (std::isfinite(result.loss)) DING_RETURN_IF_ERROR(online.Backward(d_outputs));
    return QLoss{result.loss, result.mean_q,     result.mean_next_value, data.rows(), td_error_,
                 {},          std::move(scalars)};
  }

  // Computes the loss of the options, after ComputeNext().
  absl::StatusOr<LossValue> ComputeOwn(const TransitionView& batch, absl::Span<const float> q,
                                       absl::Span<float> d_q) {
    LossInput input;
    input.rows = batch.obs.rows();
    const int64_t actions = network().num_actions();
    input.batch = {{"action", batch.action.column<int64_t>(0)},
                   {"reward", reward_},
                   {"discount", batch.discount}};
    const absl::Span<const uint8_t> mask = network().MaskOf(batch.obs);
    if (!mask.empty()) {
      input.batch.push_back({"action_mask", mask, actions});
      input.batch.push_back({"next_action_mask", network().MaskOf(batch.next_obs), actions});
    }
    input.outputs = {{"q", q, d_q, actions}};
    DING_ASSIGN_OR_RETURN(const MutableColumnsView next_q, next_target_outputs_.Rows(input.rows));
    input.target = {{"next_q", ColumnsView(next_q).column<float>(0), actions},
                    {"next_value", next_}};
    if (options().own_loss->reads_target_of_obs()) {
      DING_ASSIGN_OR_RETURN(const MutableColumnsView target_q, target_outputs_.Rows(input.rows));
      DING_RETURN_IF_ERROR(target().Infer(network().Inputs(batch.obs), target_q));
      input.target.push_back({"q", ColumnsView(target_q).column<float>(0), actions});
    }
    input.weight = batch.weight;
    return ComputeOwnLoss(options().own_loss.get(), input, absl::MakeSpan(td_error_));
  }

  // Each iteration has a stream of its own, so that the learners of a group draw alike even if a
  // step has failed in some of them.
  void DrawRandomNumbers() {
    Rng rng(noise_seed_, kNoisePurpose, static_cast<uint64_t>(train_iter()));
    for (Network* const each : {&network().network(), &target()}) {
      if (RandomNetwork* const random = AsRandom(each); random != nullptr) random->Draw(&rng);
    }
  }

  // Writes reward_ and next_.
  absl::Status ComputeTarget(const TransitionView& batch) {
    const absl::Span<const uint8_t> next_mask = network().MaskOf(batch.next_obs);
    DING_RETURN_IF_ERROR(network().CheckCanBootstrap(next_mask, batch.discount));
    const ColumnsView inputs = network().Inputs(batch.next_obs);
    DING_ASSIGN_OR_RETURN(const MutableColumnsView next, next_target_outputs_.Rows(inputs.rows()));
    DING_RETURN_IF_ERROR(target().Infer(inputs, next));
    MutableColumnsView chooser = next;
    if (options().double_q) {
      DING_ASSIGN_OR_RETURN(chooser, next_outputs_.Rows(inputs.rows()));
      DING_RETURN_IF_ERROR(network().network().Infer(inputs, chooser));
    }
    const auto target_of_obs = [&]() -> absl::StatusOr<absl::Span<const float>> {
      DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(batch.obs.rows()));
      DING_RETURN_IF_ERROR(target().Infer(network().Inputs(batch.obs), outputs));
      return outputs.column<float>(0);
    };
    reward_.assign(batch.reward.begin(), batch.reward.end());
    next_.resize(next.column<float>(0).size() / static_cast<size_t>(network().num_actions()));
    return network().head().ComputeTarget(
        {network().num_actions(), batch.action.column<int64_t>(0), batch.discount,
         chooser.column<float>(0), next.column<float>(0), next_mask, network().MaskOf(batch.obs),
         target_of_obs},
        absl::MakeSpan(reward_), absl::MakeSpan(next_));
  }

  uint64_t noise_seed_;
  // Working space, kept between iterations.
  SampledTransitionReader reader_;
  ScratchColumns outputs_;
  ScratchColumns d_outputs_;
  ScratchColumns next_outputs_;
  ScratchColumns next_target_outputs_;
  ScratchColumns target_outputs_;  // for obs
  std::vector<float> reward_;      // [B]
  std::vector<float> next_;        // [B, W]
  std::vector<float> td_error_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DqnPolicy>> DqnPolicy::Create(std::unique_ptr<Network> network,
                                                             SpecPtr action,
                                                             const DqnOptions& options,
                                                             SpecPtr observation,
                                                             DqnVariant variant) {
  if (AsRecurrent(network.get()) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        variant.algorithm, " learns from single rows, which cannot train the memory of ",
        network->info(), ": policy type 'r2d2' learns from sequences"));
  }
  if (options.own_loss != nullptr && variant.head != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        variant.algorithm, " has a head with a loss of its own, expected no other loss"));
  }
  if (variant.head == nullptr) variant.head = std::make_unique<ValueHead>(options.loss);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<QNetwork> q_network,
                        QNetwork::Create(variant.algorithm, std::move(network), std::move(action),
                                         std::move(observation), std::move(variant.head)));
  if (LossFunction* const own = options.own_loss.get(); own != nullptr) {
    DING_RETURN_IF_ERROR(
        CheckLossColumns(own, DqnLossColumns(q_network->num_actions(), q_network->has_mask(),
                                             own->reads_target_of_obs())));
  }
  auto policy = absl::WrapUnique(new DqnPolicy(std::move(q_network), options));
  if (options.modes.learn) {
    DING_ASSIGN_OR_RETURN(QLearnMode::Parts parts,
                          QLearnMode::MakeParts(*policy->q_network(), options));
    policy->set_learn_mode(
        std::make_unique<DqnLearn>(policy->q_network(), options, std::move(parts)));
  }
  return policy;
}

}  // namespace ding
