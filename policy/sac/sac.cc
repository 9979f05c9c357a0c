#include "ding_worker/policy/sac/sac.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_learn_mode.h"
#include "ding_worker/policy/continuous/squashed_normal.h"
#include "ding_worker/policy/sampled_transition_reader.h"
#include "ding_worker/policy/scheduled_settings.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {
namespace {

constexpr char kName[] = "sac";
constexpr char kLogAlpha[] = "log_alpha";
constexpr char kAlphaOptimizerScope[] = "alpha_optimizer";
constexpr Rng::Purpose kSubset("policy/subset");
// The fields of the actor's outputs.
constexpr int kMean = 0;
constexpr int kLogStd = 1;

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
  SacLearnMode(ContinuousActor* actor, const SacOptions& options, Parts parts, Adam alpha_adam)
      : ContinuousLearnMode(actor, options.base, std::move(parts)),
        options_(options),
        target_entropy_(
            options.target_entropy.value_or(-static_cast<double>(actor->scale().width()))),
        alpha_adam_(std::move(alpha_adam)),
        log_alpha_(static_cast<float>(std::log(options.alpha))),
        distribution_(actor->scale().width()),
        d_outputs_(actor->network().output_spec()),
        members_(static_cast<size_t>(critics().num_critics())) {
    std::iota(members_.begin(), members_.end(), 0);
  }

  std::vector<std::string> monitor_vars() const override {
    std::vector<std::string> names = ContinuousLearnMode::monitor_vars();
    names.push_back("alpha");
    if (options_.base.actor_update_freq == 1) names.push_back("entropy");
    return names;
  }
  ProgressVars progress_vars() const override {
    return {{"loss", "critic_loss"}, {"alpha", "alpha"}};
  }

 private:
  double alpha() const { return std::exp(static_cast<double>(log_alpha_)); }

  absl::Status ComputeNextValue(const TransitionView& batch, absl::Span<const float> noise,
                                absl::Span<float> value) override {
    DING_ASSIGN_OR_RETURN(const ColumnsView outputs, actor().Infer(batch.next_obs));
    Sample(outputs, noise, value.size());
    DING_RETURN_IF_ERROR(targets().Infer(batch.next_obs, action_));
    MinOverCritics(targets().q(), TargetMembers(), value);
    SubtractEntropyCost(log_prob_, alpha(), value);
    return absl::OkStatus();
  }

  absl::StatusOr<double> ComputeActorGradients(const TransitionView& batch,
                                               absl::Span<const float> noise) override {
    DING_ASSIGN_OR_RETURN(const ColumnsView outputs, actor().Forward(batch.obs));
    const auto rows = static_cast<size_t>(batch.obs.rows());
    Sample(outputs, noise, rows);
    DING_RETURN_IF_ERROR(critics().Forward(batch.obs, action_));
    d_log_prob_.resize(rows);
    const SacActorLossResult result =
        ComputeSacActorLoss(critics().q(), log_prob_, alpha(), options_.actor_reduction,
                            critics().d_q(), absl::MakeSpan(d_log_prob_));
    d_action_.resize(action_.size());
    DING_RETURN_IF_ERROR(critics().BackwardToActions(absl::MakeSpan(d_action_)));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs, d_outputs_.Rows(batch.obs.rows()));
    distribution_.Backward(d_action_, d_log_prob_, d_outputs.column<float>(kMean),
                           d_outputs.column<float>(kLogStd));
    const TemperatureLossResult temperature =
        ComputeTemperatureLoss(log_prob_, log_alpha_, target_entropy_);
    d_log_alpha_ = static_cast<float>(temperature.d_log_alpha);
    entropy_ = temperature.mean_entropy;
    DING_RETURN_IF_ERROR(actor().network().Backward(d_outputs));
    return result.loss;
  }

  // Draws action_ and log_prob_ from the distributions of these rows.
  void Sample(const ColumnsView& outputs, absl::Span<const float> noise, size_t rows) {
    action_.resize(noise.size());
    log_prob_.resize(rows);
    distribution_.Sample(outputs.column<float>(kMean), outputs.column<float>(kLogStd), noise,
                         absl::MakeSpan(action_), absl::MakeSpan(log_prob_));
  }

  // The critics of the bootstrap value in this iteration, the same in all learners of a group: the first elements of
  // a random permutation (Fisher and Yates).
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

  absl::Status ReadMoreSettings(const NamedValues& settings) override {
    if (const std::optional<double> rate = settings.Get(kAlphaRate)) {
      DING_RETURN_IF_ERROR(Annotate(alpha_adam_.set_lr(*rate), kAlphaRate));
    }
    target_entropy_ = settings.GetOr(kTargetEntropy, target_entropy_);
    return absl::OkStatus();
  }
  Adam* more_adam() override { return options_.learn_alpha ? &alpha_adam_ : nullptr; }
  void AppendMoreGradients(std::vector<absl::Span<float>>* gradients) override {
    if (options_.learn_alpha) gradients->push_back(absl::MakeSpan(&d_log_alpha_, 1));
  }
  void StepMore() override {
    if (!options_.learn_alpha) return;
    const absl::Status status =
        alpha_adam_.Step(absl::MakeConstSpan(&d_log_alpha_, 1), absl::MakeSpan(&log_alpha_, 1));
    DING_CHECK(status.ok()) << status.ToString();  // The gradient is finite.
  }

  void ReportMore(bool with_actor, NamedValues* scalars) const override {
    scalars->Set("alpha", alpha());
    if (with_actor) scalars->Set("entropy", entropy_);
  }

  absl::Status SaveMore(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteDouble(kLogAlpha, log_alpha_));
    return SaveAdam(alpha_adam_, kAlphaOptimizerScope, writer);
  }

  absl::StatusOr<std::function<void()>> LoadMore(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const double log_alpha, reader->ReadDouble(kLogAlpha));
    if (!std::isfinite(log_alpha)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the saved '", kLogAlpha, "' is ", log_alpha, ", expected a finite number"));
    }
    DING_ASSIGN_OR_RETURN(Adam made,
                          ReadAdam(options_.alpha_adam, 1, kAlphaOptimizerScope, reader));
    const auto adam = std::make_shared<Adam>(std::move(made));
    return [this, log_alpha, adam] {
      log_alpha_ = static_cast<float>(log_alpha);
      alpha_adam_.CopyFrom(*adam);
    };
  }

  const SacOptions options_;
  double target_entropy_;
  Adam alpha_adam_;
  float log_alpha_;
  float d_log_alpha_ = 0;
  double entropy_ = 0;  // of the last step of the actor

  // Working space, kept between iterations.
  SquashedNormal distribution_;
  ScratchColumns d_outputs_;
  std::vector<int> members_;
  std::vector<float> action_;
  std::vector<float> log_prob_;
  std::vector<float> d_log_prob_;
  std::vector<float> d_action_;
};

absl::Status CheckOptions(const SacOptions& options, int num_critics) {
  if (!(options.alpha > 0 && std::isfinite(options.alpha))) {
    return absl::InvalidArgumentError(
        absl::StrCat("alpha is ", options.alpha, ", must be finite and above 0"));
  }
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
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ContinuousActor> actor,
                        ContinuousActor::Create(kName, ActorHead::kNormal, std::move(network),
                                                std::move(action), options.base.obs_clip));
  auto exploration = std::make_unique<DrawFromTheDistribution>(actor->scale().width());
  auto policy =
      std::make_unique<ContinuousPolicy>(std::move(actor), std::move(exploration), options.base);
  if (!options.base.modes.learn) return policy;
  DING_ASSIGN_OR_RETURN(
      ContinuousLearnMode::Parts parts,
      ContinuousLearnMode::MakeParts(*policy->actor(), std::move(critics), options.base));
  DING_RETURN_IF_ERROR(CheckOptions(options, parts.critics->num_critics()));
  DING_ASSIGN_OR_RETURN(Adam alpha_adam, Adam::Create(options.alpha_adam, 1));
  policy->set_learn_mode(std::make_unique<SacLearnMode>(policy->actor(), options, std::move(parts),
                                                        std::move(alpha_adam)));
  return policy;
}

}  // namespace ding
