#include "ding_worker/policy/sac/sac.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/temperature.h"

namespace ding {
namespace {

constexpr Rng::Purpose kSubset("policy/subset");
// The fields of the actor's outputs.
constexpr int kMean = 0;
constexpr int kLogStd = 1;
// The group of parameters after those of ContinuousLearnMode.
constexpr size_t kAlphaGroup = 2;

class DrawFromTheDistribution : public Exploration {
 public:
  explicit DrawFromTheDistribution(size_t width) : distribution_(width) {}
  void Explore(const ColumnsView& outputs, Rng* rng, absl::Span<float> action) override {
    noise_.resize(action.size());
    for (float& value : noise_) value = static_cast<float>(rng->Normal());
    distribution_.Sample(outputs.column<float>(kMean), outputs.column<float>(kLogStd), noise_,
                         action, /*log_prob=*/{});
  }

 private:
  SquashedNormal distribution_;
  std::vector<float> noise_;
};

class SacLearnMode : public ContinuousLearnMode {
 public:
  SacLearnMode(ContinuousActor* actor, const SacOptions& options, Parts parts,
               std::unique_ptr<Temperature> temperature)
      : ContinuousLearnMode(actor, options.base, std::move(parts)),
        options_(options),
        temperature_(std::move(temperature)),
        distribution_(actor->scale().width()),
        d_outputs_(actor->network().output_spec()),
        members_(static_cast<size_t>(critics().num_critics())) {
    std::iota(members_.begin(), members_.end(), 0);
    description().monitor_vars.push_back("alpha");
    if (options_.base.actor_update_freq == 1) description().monitor_vars.push_back("entropy");
    description().progress_vars.push_back({"alpha", "alpha"});
    temperature_->AddTo(state());
    adam(kAlphaGroup).AddTo(state());
  }

 private:
  absl::StatusOr<int64_t> ComputeGradients(const Batch& data, const NamedValues& settings,
                                           LearnStep* step) override {
    temperature_->set_target_entropy(
        settings.GetOr(kTargetEntropy, temperature_->target_entropy()));
    return ContinuousLearnMode::ComputeGradients(data, settings, step);
  }

  absl::Status ComputeNextValue(const TransitionView& batch, absl::Span<const float> noise,
                                absl::Span<float> value) override {
    DING_ASSIGN_OR_RETURN(const ColumnsView outputs, actor().Infer(batch.next_obs));
    Sample(outputs, noise, value.size());
    DING_RETURN_IF_ERROR(targets().Infer(batch.next_obs, action_));
    MinOverCritics(targets().q(), TargetMembers(), value);
    SubtractEntropyCost(cost_, temperature_->alpha(), value);
    return absl::OkStatus();
  }

  absl::StatusOr<double> ComputeActorGradients(const TransitionView& batch,
                                               absl::Span<const float> noise,
                                               NamedValues* scalars) override {
    DING_ASSIGN_OR_RETURN(const ColumnsView outputs, actor().Forward(batch.obs));
    const auto rows = static_cast<size_t>(batch.obs.rows());
    Sample(outputs, noise, rows);
    DING_RETURN_IF_ERROR(critics().Forward(batch.obs, action_));
    d_log_prob_.resize(rows);
    SacActorLossResult result =
        ComputeSacActorLoss(critics().q(), cost_, temperature_->alpha(), options_.actor_reduction,
                            critics().d_q(), absl::MakeSpan(d_log_prob_));
    for (size_t row = 0; row < slope_.size(); ++row) d_log_prob_[row] *= slope_[row];
    if (has_own_actor_loss()) {
      DING_ASSIGN_OR_RETURN(
          result.loss, ComputeOwnActorLoss(critics().num_critics(), action_,
                                           {{"log_prob", log_prob_, absl::MakeSpan(d_log_prob_)}},
                                           {{"alpha", temperature_->alpha()}}));
    }
    d_action_.resize(action_.size());
    DING_RETURN_IF_ERROR(critics().BackwardToActions(absl::MakeSpan(d_action_)));
    AddOwnActionGradient(absl::MakeSpan(d_action_));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs, d_outputs_.Rows(batch.obs.rows()));
    distribution_.Backward(d_action_, d_log_prob_, d_outputs.column<float>(kMean),
                           d_outputs.column<float>(kLogStd));
    scalars->Set("entropy", temperature_->ComputeGradient(cost_));
    DING_RETURN_IF_ERROR(actor().network().Backward(d_outputs));
    return result.loss;
  }

  // Draws action_ and log_prob_ from the distributions of these rows, and computes cost_.
  void Sample(const ColumnsView& outputs, absl::Span<const float> noise, size_t rows) {
    action_.resize(noise.size());
    log_prob_.resize(rows);
    distribution_.Sample(outputs.column<float>(kMean), outputs.column<float>(kLogStd), noise,
                         absl::MakeSpan(action_), absl::MakeSpan(log_prob_));
    cost_ = log_prob_;
    if (options_.entropy_cost == nullptr) return;
    slope_.resize(rows);
    for (size_t row = 0; row < rows; ++row) {
      const EntropyCost cost = options_.entropy_cost(log_prob_[row]);
      cost_[row] = static_cast<float>(cost.value);
      slope_[row] = static_cast<float>(cost.slope);
    }
  }

  // The critics of the bootstrap value in this iteration, the same in all learners of a group: the
  // first elements of a random permutation (Fisher and Yates).
  absl::Span<const int> TargetMembers() {
    if (options_.target_subset == 0) return members_;
    Rng rng(noise_seed(), kSubset, static_cast<uint64_t>(train_iter()));
    std::iota(members_.begin(), members_.end(), 0);
    const auto size = static_cast<size_t>(options_.target_subset);
    for (size_t i = 0; i < size; ++i) {
      std::swap(members_[i], members_[i + rng.UniformInt(members_.size() - i)]);
    }
    return absl::MakeConstSpan(members_).subspan(0, size);
  }

  void AfterStep(LearnStep* step) override {
    ContinuousLearnMode::AfterStep(step);
    step->scalars.Set("alpha", temperature_->alpha());
  }

  const SacOptions options_;
  const std::unique_ptr<Temperature> temperature_;

  // Working space, kept between iterations.
  SquashedNormal distribution_;
  ScratchColumns d_outputs_;
  std::vector<int> members_;
  std::vector<float> action_;
  std::vector<float> log_prob_;
  std::vector<float> cost_;   // of the entropy
  std::vector<float> slope_;  // of cost_ by log_prob_; empty: 1
  std::vector<float> d_log_prob_;
  std::vector<float> d_action_;
};

absl::Status CheckOptions(const SacOptions& options, int num_critics) {
  DING_RETURN_IF_ERROR(Temperature::Check(options.alpha));
  if (options.target_entropy.has_value() && !std::isfinite(*options.target_entropy)) {
    return absl::InvalidArgumentError(
        absl::StrCat("target_entropy is ", *options.target_entropy, ", must be finite"));
  }
  if (options.target_subset < 0 || options.target_subset > num_critics) {
    return absl::InvalidArgumentError(absl::StrCat("target_subset is ", options.target_subset,
                                                   ", must be in 0..", num_critics,
                                                   ", the number of critics (0: all)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ContinuousPolicy>> CreateSac(std::unique_ptr<Network> network,
                                                            std::unique_ptr<CriticEnsemble> critics,
                                                            SpecPtr action,
                                                            const SacOptions& options) {
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<ContinuousActor> actor,
      ContinuousActor::Create(options.algorithm, ActorHead::kNormal, std::move(network),
                              std::move(action), options.base.obs_clip));
  auto exploration = std::make_unique<DrawFromTheDistribution>(actor->scale().width());
  auto policy =
      std::make_unique<ContinuousPolicy>(std::move(actor), std::move(exploration), options.base);
  if (!options.base.modes.learn) return policy;
  DING_ASSIGN_OR_RETURN(
      ContinuousLearnMode::Parts parts,
      ContinuousLearnMode::MakeParts(*policy->actor(), std::move(critics), options.base));
  DING_RETURN_IF_ERROR(CheckOptions(options, parts.critics->num_critics()));
  const auto elements = static_cast<double>(policy->actor()->scale().width());
  auto temperature =
      std::make_unique<Temperature>(options.alpha, options.target_entropy.value_or(-elements));
  DING_ASSIGN_OR_RETURN(TrainedGroup group,
                        temperature->MakeGroup(options.alpha_adam, options.learn_alpha,
                                               options.base.actor_update_freq));
  parts.groups.push_back(std::move(group));
  policy->set_learn_mode(std::make_unique<SacLearnMode>(policy->actor(), options, std::move(parts),
                                                        std::move(temperature)));
  return policy;
}

}  // namespace ding
