#include "ding_worker/policy/discrete_sac/discrete_sac.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_mask.h"
#include "ding_worker/policy/actor_critic/greedy_eval.h"
#include "ding_worker/policy/actor_critic/sample_collect.h"
#include "ding_worker/policy/discrete_sac/discrete_critic.h"
#include "ding_worker/policy/dqn/q_network.h"
#include "ding_worker/policy/loss/critic_ensemble_loss.h"
#include "ding_worker/policy/loss/discrete_sac_loss.h"
#include "ding_worker/policy/loss/sac_loss.h"
#include "ding_worker/policy/rate_average.h"
#include "ding_worker/policy/sampled_transition_reader.h"
#include "ding_worker/policy/scheduled_settings.h"
#include "ding_worker/policy/scratch_columns.h"
#include "ding_worker/policy/target_update.h"

namespace ding {
namespace {

constexpr char kName[] = "discrete_sac";
constexpr char kLogAlpha[] = "log_alpha";
constexpr char kTrainIter[] = "train_iter";
constexpr char kActorOptimizerScope[] = "actor_optimizer";
constexpr char kAlphaOptimizerScope[] = "alpha_optimizer";
constexpr int kCritics = 2;
constexpr int kMembers[kCritics] = {0, 1};
// Train iterations between two measurements of the gradient, which take longer than the other ones.
constexpr int64_t kMeasurePeriod = 10;

absl::StatusOr<Adam> MakeAdam(const AdamOptions& options, const Network& network) {
  return Adam::Create(options, static_cast<int64_t>(network.parameters().size()));
}

using Critics = std::array<std::unique_ptr<DiscreteCritic>, kCritics>;

absl::Status CheckTargetEntropy(double target, int64_t num_actions) {
  const double most = std::log(static_cast<double>(num_actions));
  if (target >= 0 && target <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("target_entropy is ", target, ", must be in [0, ",
                                                 most, "], the entropy of ", num_actions,
                                                 " equally probable actions"));
}

absl::Status CheckOptions(const DiscreteSacOptions& options, int64_t num_actions) {
  DING_RETURN_IF_ERROR(Validate(TargetUpdate{0, options.target_update_theta}));
  if (!(options.alpha > 0 && std::isfinite(options.alpha))) {
    return absl::InvalidArgumentError(
        absl::StrCat("alpha is ", options.alpha, ", must be finite and above 0"));
  }
  return CheckTargetEntropy(options.target_entropy.value_or(0), num_actions);
}

absl::Status ReadRate(const NamedValues& settings, absl::string_view name, Adam* adam) {
  const std::optional<double> rate = settings.Get(name);
  if (!rate.has_value()) return absl::OkStatus();
  return Annotate(adam->set_lr(*rate), name);
}

}  // namespace

class DiscreteSacPolicy::Learn : public LearnMode {
 public:
  // `network` is that of `actor`.
  Learn(const DiscreteSacOptions& options, ActorCritic* actor, Network* network, Critics critics,
        Adam actor_adam, Adam alpha_adam)
      : options_(options),
        actor_(*actor),
        network_(*network),
        critics_(std::move(critics)),
        num_actions_(critics_[0]->q().num_actions()),
        target_entropy_(options.target_entropy.value_or(DefaultTargetEntropy(num_actions_))),
        actor_adam_(std::move(actor_adam)),
        alpha_adam_(std::move(alpha_adam)),
        log_alpha_(static_cast<float>(std::log(options.alpha))),
        reader_(actor_.observation(), actor_.action()),
        next_logits_(network_.output_spec()),
        columns_(kCritics),
        d_columns_(kCritics) {}

  LearnAttributes attributes() const override { return options_.learn; }
  std::vector<std::string> monitor_vars() const override {
    // Not grad_norm, which not every iteration reports.
    return {"cur_lr",         "critic_loss", "actor_loss", "q_value",
            "target_q_value", "td_error",    "alpha",      "entropy"};
  }
  ProgressVars progress_vars() const override {
    return {{"loss", "critic_loss"}, {"alpha", "alpha"}};
  }
  std::string info() const override {
    return absl::StrCat(kName, " on ", actor_.info(), "; 2 critics, ",
                        critics_[0]->network().info());
  }

  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    Results results;
    const absl::Status status = Update(data, settings, &results);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat(kName, ", train iteration ", train_iter_ + 1));
    }
    ++train_iter_;
    for (const auto& critic : critics_) {
      critic->MoveTarget(options_.target_update_theta, train_iter_);
    }
    steps->resize(1);
    Report(results, &steps->front());
    return absl::OkStatus();
  }

  absl::Status SaveModel(StateWriter* writer) const override { return actor_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return actor_.LoadModel(reader); }

  absl::Status SaveTrainState(StateWriter* writer) const override {
    for (const auto& critic : critics_) DING_RETURN_IF_ERROR(critic->SaveState(writer));
    DING_RETURN_IF_ERROR(SaveAdam(actor_adam_, kActorOptimizerScope, writer));
    DING_RETURN_IF_ERROR(SaveAdam(alpha_adam_, kAlphaOptimizerScope, writer));
    DING_RETURN_IF_ERROR(writer->WriteDouble(kLogAlpha, log_alpha_));
    return writer->WriteInt(kTrainIter, train_iter_);
  }

  absl::Status LoadTrainState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(const DiscreteCritic::Saved saved0, critics_[0]->ReadState(reader));
    DING_ASSIGN_OR_RETURN(const DiscreteCritic::Saved saved1, critics_[1]->ReadState(reader));
    DING_ASSIGN_OR_RETURN(
        const Adam actor_adam,
        ReadAdam(options_.actor_adam, static_cast<int64_t>(network_.parameters().size()),
                 kActorOptimizerScope, reader));
    DING_ASSIGN_OR_RETURN(const Adam alpha_adam,
                          ReadAdam(options_.alpha_adam, 1, kAlphaOptimizerScope, reader));
    DING_ASSIGN_OR_RETURN(const double log_alpha, reader->ReadDouble(kLogAlpha));
    DING_ASSIGN_OR_RETURN(const int64_t train_iter, reader->ReadCount(kTrainIter));
    if (!std::isfinite(log_alpha)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the saved '", kLogAlpha, "' is ", log_alpha, ", expected a finite number"));
    }
    critics_[0]->Apply(saved0);
    critics_[1]->Apply(saved1);
    actor_adam_.CopyFrom(actor_adam);
    alpha_adam_.CopyFrom(alpha_adam);
    log_alpha_ = static_cast<float>(log_alpha);
    train_iter_ = train_iter;
    return absl::OkStatus();
  }

 private:
  struct Results {
    CriticLossResult critics;
    double actor_loss = 0;
    double entropy = 0;
    std::optional<double> grad_norm;
  };

  double alpha() const { return std::exp(static_cast<double>(log_alpha_)); }

  // Takes one step of all that learns; after an error nothing is changed.
  absl::Status Update(const Batch& data, const NamedValues& settings, Results* results) {
    absl::Status computed = ReadSettings(settings);
    if (computed.ok()) computed = ComputeGradients(data, results);
    gradients_.clear();
    for (const auto& critic : critics_) gradients_.push_back(critic->network().gradients());
    gradients_.push_back(network_.gradients());
    if (options_.learn_alpha) gradients_.push_back(absl::MakeSpan(&d_log_alpha_, 1));
    const bool averages_rates = options_.reducer != nullptr && options_.schedules.changes();
    if (averages_rates) gradients_.push_back(rates_.Read(Optimizers()));
    DING_RETURN_IF_ERROR(AverageGradients(options_.reducer, gradients_, data.rows(), computed));
    if (averages_rates) {
      gradients_.pop_back();
      DING_RETURN_IF_ERROR(rates_.Apply(Optimizers()));
    }
    for (const absl::Span<float> gradient : gradients_) {
      if (AllFinite(gradient)) continue;
      const int64_t bad = FindNonFinite(gradient);
      return absl::InternalError(absl::StrCat("gradient ", bad, " of ", gradient.size(), " is ",
                                              gradient[static_cast<size_t>(bad)]));
    }
    return Step(results);
  }

  absl::Status ReadSettings(const NamedValues& settings) {
    for (const auto& critic : critics_) {
      DING_RETURN_IF_ERROR(ReadRate(settings, kCriticRate, &critic->adam()));
    }
    DING_RETURN_IF_ERROR(ReadRate(settings, kActorRate, &actor_adam_));
    DING_RETURN_IF_ERROR(ReadRate(settings, kAlphaRate, &alpha_adam_));
    const double target_entropy = settings.GetOr(kTargetEntropy, target_entropy_);
    DING_RETURN_IF_ERROR(CheckTargetEntropy(target_entropy, num_actions_));
    target_entropy_ = target_entropy;
    return absl::OkStatus();
  }

  std::array<Adam*, 4> Optimizers() {
    return {&critics_[0]->adam(), &critics_[1]->adam(), &actor_adam_, &alpha_adam_};
  }

  absl::Status ComputeGradients(const Batch& data, Results* results) {
    DING_ASSIGN_OR_RETURN(const TransitionView batch, reader_.Read(data));
    DING_RETURN_IF_ERROR(ComputeNextValue(batch));
    DING_RETURN_IF_ERROR(ComputeCriticGradients(batch, &results->critics));
    return ComputeActorGradients(batch, results);
  }

  absl::Status ComputeNextValue(const TransitionView& batch) {
    QNetwork& spaces = critics_[0]->q();
    const absl::Span<const uint8_t> mask = spaces.MaskOf(batch.next_obs);
    DING_RETURN_IF_ERROR(spaces.CheckCanBootstrap(mask, batch.discount));
    const ColumnsView inputs = spaces.Inputs(batch.next_obs);
    DING_ASSIGN_OR_RETURN(const MutableColumnsView logits, next_logits_.Rows(inputs.rows()));
    DING_RETURN_IF_ERROR(network_.Infer(inputs, logits));
    for (const auto& critic : critics_) DING_RETURN_IF_ERROR(critic->InferTarget(inputs));
    next_value_.resize(batch.reward.size());
    ComputeSoftValues({logits.column<float>(0), LeastValues(), num_actions_, mask}, alpha(),
                      absl::MakeSpan(next_value_));
    return absl::OkStatus();
  }

  // Returns the minimum of the critics' current values [B, A].
  absl::Span<const float> LeastValues() {
    for (size_t k = 0; k < kCritics; ++k) columns_[k] = critics_[k]->values();
    least_.resize(columns_[0].size());
    MinOverCritics(columns_, kMembers, absl::MakeSpan(least_));
    return least_;
  }

  absl::Status ComputeCriticGradients(const TransitionView& batch, CriticLossResult* result) {
    const ColumnsView inputs = critics_[0]->q().Inputs(batch.obs);
    const absl::Span<const int64_t> action = batch.action.column<int64_t>(0);
    for (size_t k = 0; k < kCritics; ++k) {
      DING_RETURN_IF_ERROR(critics_[k]->Forward(inputs, action));
      columns_[k] = critics_[k]->taken();
      d_columns_[k] = critics_[k]->d_taken();
    }
    td_error_.resize(next_value_.size());
    *result = ComputeCriticLoss({columns_, batch.reward, batch.discount, next_value_, batch.weight},
                                absl::MakeSpan(td_error_), d_columns_);
    if (!std::isfinite(result->loss)) {
      const int64_t row = FindNonFinite(td_error_);
      return absl::InternalError(absl::StrCat(
          "the critics' loss is ", result->loss,
          row < 0 ? std::string()
                  : absl::StrCat("; the first non-finite td error is that of row ", row)));
    }
    for (const auto& critic : critics_) DING_RETURN_IF_ERROR(critic->Backward(action));
    return absl::OkStatus();
  }

  // Uses the values that ComputeCriticGradients() has left.
  absl::Status ComputeActorGradients(const TransitionView& batch, Results* results) {
    const absl::Span<const uint8_t> mask = ActionMaskOf(batch.obs, actor_.mask_field());
    DING_ASSIGN_OR_RETURN(const ColumnsView inputs, actor_.Inputs(batch.obs));
    DING_RETURN_IF_ERROR(actor_.Forward(inputs, mask));
    mean_log_prob_.resize(batch.reward.size());
    results->actor_loss =
        ComputeDiscreteSacActorLoss({actor_.head(), LeastValues(), num_actions_, mask}, alpha(),
                                    absl::MakeSpan(mean_log_prob_), actor_.d_head());
    if (!std::isfinite(results->actor_loss)) {
      return absl::InternalError(absl::StrCat("the actor's loss is ", results->actor_loss));
    }
    const TemperatureLossResult temperature =
        ComputeTemperatureLoss(mean_log_prob_, log_alpha_, target_entropy_);
    d_log_alpha_ = static_cast<float>(temperature.d_log_alpha);
    results->entropy = temperature.mean_entropy;
    return actor_.Backward();
  }

  // The gradients are finite, so that no step can fail.
  absl::Status Step(Results* results) {
    const absl::Span<const absl::Span<float>> of_critics =
        absl::MakeConstSpan(gradients_).subspan(0, kCritics);
    if ((train_iter_ + 1) % kMeasurePeriod == 0) results->grad_norm = GradientNorm(of_critics);
    if (options_.grad_clip_norm > 0) {
      DING_RETURN_IF_ERROR(ClipGradientNorm(of_critics, options_.grad_clip_norm).status());
      DING_RETURN_IF_ERROR(
          ClipGradientNorm(gradients_[kCritics], options_.grad_clip_norm).status());
    }
    for (const auto& critic : critics_) {
      DING_RETURN_IF_ERROR(
          critic->adam().Step(critic->network().gradients(), critic->network().parameters()));
    }
    DING_RETURN_IF_ERROR(actor_adam_.Step(network_.gradients(), network_.parameters()));
    if (!options_.learn_alpha) return absl::OkStatus();
    return alpha_adam_.Step(absl::MakeConstSpan(&d_log_alpha_, 1), absl::MakeSpan(&log_alpha_, 1));
  }

  void Report(const Results& results, LearnStep* step) const {
    step->scalars.Clear();
    step->priority.clear();
    step->scalars.Set("cur_lr", critics_[0]->adam().lr());
    step->scalars.Set("critic_loss", results.critics.loss);
    step->scalars.Set("actor_loss", results.actor_loss);
    step->scalars.Set("q_value", results.critics.mean_q);
    step->scalars.Set("target_q_value", results.critics.mean_target);
    double absolute = 0;
    for (const float td : td_error_) absolute += td;
    step->scalars.Set("td_error", absolute / static_cast<double>(td_error_.size()));
    step->scalars.Set("alpha", alpha());
    step->scalars.Set("entropy", results.entropy);
    if (results.grad_norm.has_value()) step->scalars.Set("grad_norm", *results.grad_norm);
    if (options_.learn.priority) step->priority.assign(td_error_.begin(), td_error_.end());
  }

  const DiscreteSacOptions options_;
  ActorCritic& actor_;
  Network& network_;
  const Critics critics_;
  const int64_t num_actions_;
  double target_entropy_;
  Adam actor_adam_;
  Adam alpha_adam_;
  float log_alpha_;
  float d_log_alpha_ = 0;
  int64_t train_iter_ = 0;

  // Working space, kept between iterations.
  SampledTransitionReader reader_;
  ScratchColumns next_logits_;
  CriticColumns columns_;
  MutableCriticColumns d_columns_;
  std::vector<float> least_;
  std::vector<float> next_value_;
  std::vector<float> td_error_;
  std::vector<float> mean_log_prob_;
  std::vector<absl::Span<float>> gradients_;
  RateAverage rates_;
};

double DefaultTargetEntropy(int64_t num_actions) {
  return 0.98 * std::log(static_cast<double>(num_actions));
}

absl::StatusOr<std::unique_ptr<DiscreteSacPolicy>> DiscreteSacPolicy::Create(
    DiscreteSacNetworks networks, SpecPtr observation, SpecPtr action,
    const DiscreteSacOptions& options) {
  DING_ASSIGN_OR_RETURN(const int64_t num_actions, CountActions(*action, kName));
  DING_RETURN_IF_ERROR(CheckOptions(options, num_actions));
  DING_CHECK(networks.actor != nullptr) << "an actor is needed in all modes";
  Network* const network = networks.actor.get();
  ActorCriticOptions actor_options;
  actor_options.has_value = false;
  auto policy = absl::WrapUnique(new DiscreteSacPolicy);
  DING_ASSIGN_OR_RETURN(policy->actor_, ActorCritic::Create(std::move(networks.actor), nullptr,
                                                            observation, action, actor_options));
  ActorCritic* const actor = policy->actor_.get();
  if (actor->state_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kName, " learns from single rows, which cannot train the memory of ",
                     actor->info(), ": use a network without memory"));
  }
  if (options.modes.learn) {
    Critics critics;
    DING_ASSIGN_OR_RETURN(
        critics[0], DiscreteCritic::Create(kName, std::move(networks.critic0), observation, action,
                                           options.critic_adam, 0));
    DING_ASSIGN_OR_RETURN(
        critics[1], DiscreteCritic::Create(kName, std::move(networks.critic1), observation, action,
                                           options.critic_adam, 1));
    DING_ASSIGN_OR_RETURN(Adam actor_adam, MakeAdam(options.actor_adam, *network));
    DING_ASSIGN_OR_RETURN(Adam alpha_adam, Adam::Create(options.alpha_adam, 1));
    policy->learn_ = std::make_unique<Learn>(options, actor, network, std::move(critics),
                                             std::move(actor_adam), std::move(alpha_adam));
  }
  if (options.modes.collect) {
    policy->collect_ = std::make_unique<SampleCollect>(kName, actor, options.collect, options.seed);
  }
  if (options.modes.eval) policy->eval_ = std::make_unique<GreedyEval>(kName, actor);
  if (options.modes.command)
    policy->command_ = std::make_unique<ScheduledSettings>(options.schedules);
  return policy;
}

}  // namespace ding
