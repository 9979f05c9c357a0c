#include "ding_worker/policy/td3/td3.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/loss/off_policy_loss.h"

namespace ding {
namespace {

absl::Status CheckNoise(double value, absl::string_view name) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", must be finite and at least 0"));
}

class AddNoise : public Exploration {
 public:
  explicit AddNoise(double sigma) : sigma_(sigma) {}
  absl::Status ReadSettings(const NamedValues& settings) override {
    const double sigma = settings.GetOr(kExplorationNoise, sigma_);
    DING_RETURN_IF_ERROR(CheckNoise(sigma, kExplorationNoise));
    sigma_ = sigma;
    return absl::OkStatus();
  }
  void Explore(const ColumnsView& outputs, Rng* rng, absl::Span<float> action) override {
    SquashMean(outputs.column<float>(0), action);
    for (float& value : action) {
      value = std::clamp(value + static_cast<float>(sigma_ * rng->Normal()), -1.0f, 1.0f);
    }
  }

 private:
  double sigma_;
};

class Td3LearnMode : public ContinuousLearnMode {
 public:
  Td3LearnMode(ContinuousActor* actor, const Td3Options& options, Parts parts,
               std::unique_ptr<Network> target_actor)
      : ContinuousLearnMode(actor, options.base, std::move(parts)),
        options_(options),
        target_actor_(std::move(target_actor)),
        outputs_(target_actor_->output_spec()),
        d_outputs_(target_actor_->output_spec()),
        members_(static_cast<size_t>(critics().num_critics())) {
    std::iota(members_.begin(), members_.end(), 0);
    target_actor_->set_thread_team(team());
    AddTarget(&this->actor().network(), target_actor_.get());
    state()->AddNetwork("target_actor", target_actor_.get());
  }

  absl::Status LoadModel(StateReader* reader) override {
    DING_RETURN_IF_ERROR(ContinuousLearnMode::LoadModel(reader));
    absl::c_copy(actor().network().parameters(), target_actor_->parameters().begin());
    return absl::OkStatus();
  }

 private:
  bool clones() const { return options_.cloning_alpha.has_value(); }

  absl::Status ComputeNextValue(const TransitionView& batch, absl::Span<const float> noise,
                                absl::Span<float> value) override {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(batch.next_obs.rows()));
    DING_RETURN_IF_ERROR(target_actor_->Infer(batch.next_obs, outputs));
    action_.resize(noise.size());
    SquashMean(outputs.column<float>(0), absl::MakeSpan(action_));
    SmoothTargetActions(noise, options_.target_noise, options_.target_noise_clip,
                        absl::MakeSpan(action_));
    DING_RETURN_IF_ERROR(targets().Infer(batch.next_obs, action_));
    MinOverCritics(targets().q(), members_, value);
    return absl::OkStatus();
  }

  absl::Status ComputeActorMeans(const TransitionView& batch) override {
    DING_ASSIGN_OR_RETURN(const ColumnsView outputs, actor().Forward(batch.obs));
    const absl::Span<const float> mean = outputs.column<float>(0);
    action_.resize(mean.size());
    SquashMean(mean, absl::MakeSpan(action_));
    DING_RETURN_IF_ERROR(critics().ForwardFirst(batch.obs, action_));
    mean_absolute_q_ = static_cast<float>(MeanAbsolute(critics().q().front()));
    return absl::OkStatus();
  }

  absl::Span<float> actor_means() override {
    if (!clones()) return {};
    return absl::MakeSpan(&mean_absolute_q_, 1);
  }

  absl::StatusOr<double> ComputeActorGradients(const TransitionView& batch,
                                               absl::Span<const float> /*noise*/,
                                               NamedValues* scalars) override {
    const double lambda = clones() ? ValueWeight(*options_.cloning_alpha, mean_absolute_q_) : 1.0;
    double loss =
        ComputeDeterministicActorLoss(critics().q().front(), critics().d_q().front(), lambda);
    if (has_own_actor_loss()) {
      DING_ASSIGN_OR_RETURN(loss, ComputeOwnActorLoss(/*num_critics=*/1, action_));
    }
    d_action_.resize(action_.size());
    DING_RETURN_IF_ERROR(critics().BackwardFirstToActions(absl::MakeSpan(d_action_)));
    AddOwnActionGradient(absl::MakeSpan(d_action_));
    if (clones()) {
      const double cloning_loss =
          AddCloningLoss(action_, unit_actions(), absl::MakeSpan(d_action_));
      scalars->Set("cloning_loss", cloning_loss);
      scalars->Set("lambda", lambda);
      loss += cloning_loss;
    }
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs, d_outputs_.Rows(batch.obs.rows()));
    SquashMeanBackward(action_, d_action_, d_outputs.column<float>(0));
    DING_RETURN_IF_ERROR(actor().network().Backward(d_outputs));
    return loss;
  }

  const Td3Options options_;
  const std::unique_ptr<Network> target_actor_;
  float mean_absolute_q_ = 0;  // of the last step of the actor

  // Working space, kept between iterations.
  ScratchColumns outputs_;
  ScratchColumns d_outputs_;
  std::vector<int> members_;
  std::vector<float> action_;
  std::vector<float> d_action_;
};

absl::Status CheckCloning(const Td3Options& options) {
  const double alpha = options.cloning_alpha.value_or(1);
  if (alpha > 0 && std::isfinite(alpha)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("alpha is ", alpha, ", must be finite and above 0"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ContinuousPolicy>> CreateTd3(std::unique_ptr<Network> network,
                                                            std::unique_ptr<CriticEnsemble> critics,
                                                            SpecPtr action,
                                                            const Td3Options& options) {
  DING_RETURN_IF_ERROR(CheckNoise(options.exploration_noise, kExplorationNoise));
  DING_RETURN_IF_ERROR(CheckNoise(options.target_noise, "target_noise"));
  DING_RETURN_IF_ERROR(CheckNoise(options.target_noise_clip, "target_noise_clip"));
  DING_RETURN_IF_ERROR(CheckCloning(options));
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<ContinuousActor> actor,
      ContinuousActor::Create(options.algorithm, ActorHead::kMean, std::move(network),
                              std::move(action), options.base.obs_clip));
  auto policy = std::make_unique<ContinuousPolicy>(
      std::move(actor), std::make_unique<AddNoise>(options.exploration_noise), options.base);
  if (!options.base.modes.learn) return policy;
  DING_ASSIGN_OR_RETURN(
      ContinuousLearnMode::Parts parts,
      ContinuousLearnMode::MakeParts(*policy->actor(), std::move(critics), options.base));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> target, policy->actor()->network().Clone());
  policy->set_learn_mode(std::make_unique<Td3LearnMode>(policy->actor(), options, std::move(parts),
                                                        std::move(target)));
  return policy;
}

}  // namespace ding
