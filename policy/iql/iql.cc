#include "ding_worker/policy/iql/iql.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/adam.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_learn_mode.h"
#include "ding_worker/policy/continuous/squashed_normal.h"
#include "ding_worker/policy/loss/critic_ensemble_loss.h"
#include "ding_worker/policy/loss/iql_loss.h"
#include "ding_worker/policy/parameter_state.h"
#include "ding_worker/policy/recurrent_network.h"
#include "ding_worker/policy/sampled_transition_reader.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {
namespace {

constexpr char kName[] = "iql";
constexpr char kValueScope[] = "value";
constexpr char kValueOptimizerScope[] = "value_optimizer";
constexpr char kDistributionScope[] = "distribution";
constexpr char kDistributionOptimizerScope[] = "distribution_optimizer";
// The bounds of the deviation in the code of the paper's authors.
constexpr float kMinLogStd = -5;
constexpr float kMaxLogStd = 2;

class TakeTheBest : public Exploration {
 public:
  void Explore(const ColumnsView& outputs, Rng* /*rng*/, absl::Span<float> action) override {
    SquashMean(outputs.column<float>(0), action);
  }
};

// The state value, the deviation of the actor, and their optimizers.
struct Learned {
  std::unique_ptr<Network> value;
  Adam value_adam;
  std::vector<float> log_std;
  Adam distribution_adam;
};

class IqlLearnMode : public ContinuousLearnMode {
 public:
  IqlLearnMode(ContinuousActor* actor, const IqlOptions& options, Parts parts, Learned learned)
      : ContinuousLearnMode(actor, options.base, std::move(parts)),
        options_(options),
        learned_(std::move(learned)),
        distribution_info_{
            {"log_std", {static_cast<int64_t>(learned_.log_std.size())}, /*offset=*/0}},
        d_log_std_(learned_.log_std.size()),
        value_outputs_(learned_.value->output_spec()),
        d_value_outputs_(learned_.value->output_spec()),
        d_outputs_(actor->network().output_spec()),
        members_(static_cast<size_t>(critics().num_critics())) {
    std::iota(members_.begin(), members_.end(), 0);
    learned_.value->set_thread_team(team());
  }

  std::vector<std::string> monitor_vars() const override {
    std::vector<std::string> names = ContinuousLearnMode::monitor_vars();
    names.insert(names.end(), {"value_loss", "state_value", "mean_weight"});
    return names;
  }
  std::string info() const override {
    return absl::StrCat(ContinuousLearnMode::info(), "; state value, ", learned_.value->info());
  }

 private:
  absl::Status ComputeNextValue(const TransitionView& batch, absl::Span<const float> /*noise*/,
                                absl::Span<float> value) override {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs,
                          value_outputs_.Rows(batch.next_obs.rows()));
    DING_RETURN_IF_ERROR(learned_.value->Infer(batch.next_obs, outputs));
    absl::c_copy(outputs.column<float>(0), value.begin());
    return absl::OkStatus();
  }

  absl::StatusOr<double> ComputeActorGradients(const TransitionView& batch,
                                               absl::Span<const float> /*noise*/) override {
    const auto rows = static_cast<size_t>(batch.obs.rows());
    DING_RETURN_IF_ERROR(targets().Infer(batch.obs, unit_actions()));
    q_.resize(rows);
    MinOverCritics(targets().q(), members_, absl::MakeSpan(q_));
    DING_RETURN_IF_ERROR(ComputeValueGradients(batch));
    DING_ASSIGN_OR_RETURN(const ColumnsView outputs, actor().Forward(batch.obs));
    const absl::Span<const float> mean = outputs.column<float>(0);
    action_.resize(mean.size());
    d_action_.resize(mean.size());
    SquashMean(mean, absl::MakeSpan(action_));
    const double loss =
        ComputeWeightedLikelihoodLoss({unit_actions(), action_, learned_.log_std, weight_},
                                      absl::MakeSpan(d_action_), absl::MakeSpan(d_log_std_));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs, d_outputs_.Rows(batch.obs.rows()));
    SquashMeanBackward(action_, d_action_, d_outputs.column<float>(0));
    DING_RETURN_IF_ERROR(actor().network().Backward(d_outputs));
    return loss;
  }

  // Also computes the weights of the rows.
  absl::Status ComputeValueGradients(const TransitionView& batch) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, value_outputs_.Rows(batch.obs.rows()));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs,
                          d_value_outputs_.Rows(batch.obs.rows()));
    DING_RETURN_IF_ERROR(learned_.value->Forward(batch.obs, outputs));
    const absl::Span<const float> v = outputs.column<float>(0);
    result_ = ComputeExpectileLoss(q_, v, options_.expectile, d_outputs.column<float>(0));
    if (!std::isfinite(result_.loss)) {
      return absl::InternalError(absl::StrCat("the state value's loss is ", result_.loss));
    }
    weight_.resize(q_.size());
    mean_weight_ = ComputeAdvantageWeights(q_, v, options_.beta, absl::MakeSpan(weight_));
    return learned_.value->Backward(d_outputs);
  }

  void AppendMoreGradients(std::vector<absl::Span<float>>* gradients) override {
    gradients->push_back(learned_.value->gradients());
    gradients->push_back(absl::MakeSpan(d_log_std_));
  }

  void StepMore() override {
    absl::Status status = learned_.value_adam.set_lr(critic_rate());
    if (status.ok()) status = learned_.distribution_adam.set_lr(critic_rate());
    if (status.ok() && options_.base.grad_clip_norm > 0) {
      status = ClipGradientNorm(learned_.value->gradients(), options_.base.grad_clip_norm).status();
    }
    if (status.ok()) {
      status = learned_.value_adam.Step(learned_.value->gradients(), learned_.value->parameters());
    }
    if (status.ok()) {
      status = learned_.distribution_adam.Step(d_log_std_, absl::MakeSpan(learned_.log_std));
    }
    DING_CHECK(status.ok())
        << status.ToString();  // The gradients are finite, and the rate is valid.
    for (float& log_std : learned_.log_std) log_std = std::clamp(log_std, kMinLogStd, kMaxLogStd);
  }

  void ReportMore(bool /*with_actor*/, NamedValues* scalars) const override {
    scalars->Set("value_loss", result_.loss);
    scalars->Set("state_value", result_.mean_value);
    scalars->Set("mean_weight", mean_weight_);
  }

  absl::Status SaveMore(StateWriter* writer) const override {
    const Network& value = *learned_.value;
    DING_RETURN_IF_ERROR(
        SaveParameters(value.parameter_info(), value.parameters(), kValueScope, writer));
    DING_RETURN_IF_ERROR(
        SaveParameters(distribution_info_, learned_.log_std, kDistributionScope, writer));
    DING_RETURN_IF_ERROR(SaveAdam(learned_.value_adam, kValueOptimizerScope, writer));
    return SaveAdam(learned_.distribution_adam, kDistributionOptimizerScope, writer);
  }

  absl::StatusOr<std::function<void()>> LoadMore(StateReader* reader) override {
    std::vector<float> value(learned_.value->parameters().size());
    DING_RETURN_IF_ERROR(LoadParameters(learned_.value->parameter_info(), kValueScope, reader,
                                        absl::MakeSpan(value)));
    std::vector<float> log_std(learned_.log_std.size());
    DING_RETURN_IF_ERROR(
        LoadParameters(distribution_info_, kDistributionScope, reader, absl::MakeSpan(log_std)));
    DING_ASSIGN_OR_RETURN(const std::shared_ptr<Adam> value_adam,
                          ReadSaved(value.size(), kValueOptimizerScope, reader));
    DING_ASSIGN_OR_RETURN(const std::shared_ptr<Adam> distribution_adam,
                          ReadSaved(log_std.size(), kDistributionOptimizerScope, reader));
    return [this, value = std::move(value), log_std = std::move(log_std), value_adam,
            distribution_adam] {
      absl::c_copy(value, learned_.value->parameters().begin());
      absl::c_copy(log_std, learned_.log_std.begin());
      learned_.value_adam.CopyFrom(*value_adam);
      learned_.distribution_adam.CopyFrom(*distribution_adam);
    };
  }

  // Returns the saved state of an optimizer of `size` parameters.
  absl::StatusOr<std::shared_ptr<Adam>> ReadSaved(size_t size, absl::string_view scope,
                                                  StateReader* reader) const {
    DING_ASSIGN_OR_RETURN(
        Adam adam, ReadAdam(options_.base.critic_adam, static_cast<int64_t>(size), scope, reader));
    return std::make_shared<Adam>(std::move(adam));
  }

  const IqlOptions options_;
  Learned learned_;
  const std::vector<ParameterInfo> distribution_info_;
  std::vector<float> d_log_std_;
  ExpectileLossResult result_;  // of the last iteration
  double mean_weight_ = 0;

  // Working space, kept between iterations.
  ScratchColumns value_outputs_;
  ScratchColumns d_value_outputs_;
  ScratchColumns d_outputs_;
  std::vector<int> members_;
  std::vector<float> q_;
  std::vector<float> weight_;
  std::vector<float> action_;
  std::vector<float> d_action_;
};

absl::Status CheckOptions(const IqlOptions& options) {
  if (!(options.expectile > 0 && options.expectile < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expectile is ", options.expectile, ", must be in (0, 1)"));
  }
  if (options.base.actor_update_freq != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("actor_update_freq is ", options.base.actor_update_freq,
                     ", but iql learns in every iteration: must be 1"));
  }
  if (options.beta >= 0 && std::isfinite(options.beta)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("beta is ", options.beta, ", must be finite and at least 0"));
}

absl::StatusOr<Learned> MakeLearned(std::unique_ptr<Network> value, const ContinuousActor& actor,
                                    const AdamOptions& options) {
  if (value == nullptr) {
    return absl::InvalidArgumentError("iql: the learn mode needs a network of the state value");
  }
  if (AsRecurrent(value.get()) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("iql learns from single rows, which cannot train the memory of the state "
                     "value, ",
                     value->info(), ": use a network without memory"));
  }
  DING_RETURN_IF_ERROR(
      CheckSameLayout(*actor.observation(), *value->input_spec(), "iql: the state value's inputs"));
  DING_RETURN_IF_ERROR(CheckSameLayout(*StateValueOutputs(), *value->output_spec(),
                                       "iql: the state value's outputs"));
  std::vector<float> log_std(actor.scale().width());
  DING_ASSIGN_OR_RETURN(Adam value_adam,
                        Adam::Create(options, static_cast<int64_t>(value->parameters().size())));
  DING_ASSIGN_OR_RETURN(Adam distribution_adam,
                        Adam::Create(options, static_cast<int64_t>(log_std.size())));
  return Learned{std::move(value), std::move(value_adam), std::move(log_std),
                 std::move(distribution_adam)};
}

}  // namespace

SpecPtr StateValueOutputs() { return *MakeSpec({Scalar("value", DType::kFloat32)}); }

absl::StatusOr<std::unique_ptr<ContinuousPolicy>> CreateIql(IqlNetworks networks, SpecPtr action,
                                                            const IqlOptions& options) {
  DING_RETURN_IF_ERROR(CheckOptions(options));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ContinuousActor> actor,
                        ContinuousActor::Create(kName, ActorHead::kMean, std::move(networks.actor),
                                                std::move(action), options.base.obs_clip));
  auto policy = std::make_unique<ContinuousPolicy>(std::move(actor),
                                                   std::make_unique<TakeTheBest>(), options.base);
  if (!options.base.modes.learn) return policy;
  DING_ASSIGN_OR_RETURN(
      ContinuousLearnMode::Parts parts,
      ContinuousLearnMode::MakeParts(*policy->actor(), std::move(networks.critics), options.base));
  DING_ASSIGN_OR_RETURN(Learned learned, MakeLearned(std::move(networks.value), *policy->actor(),
                                                     options.base.critic_adam));
  policy->set_learn_mode(std::make_unique<IqlLearnMode>(policy->actor(), options, std::move(parts),
                                                        std::move(learned)));
  return policy;
}

}  // namespace ding
