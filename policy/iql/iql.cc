#include "ding_worker/policy/iql/iql.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/continuous/continuous_acting.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/continuous_policy.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {
namespace {

constexpr char kName[] = "iql";
// The groups of parameters after those of ContinuousLearnMode.
constexpr size_t kValueGroup = 2;
constexpr size_t kDistributionGroup = 3;
// The bounds of the deviation in the code of the paper's authors.
constexpr float kMinLogStd = -5;
constexpr float kMaxLogStd = 2;

class TakeTheBest : public Exploration {
 public:
  void Explore(const ColumnsView& outputs, Rng* /*rng*/, absl::Span<float> action) override {
    SquashMean(outputs.column<float>(0), action);
  }
};

// What is learned beside critics and actor: the state value, and the deviation of the actor.
struct Learned {
  std::unique_ptr<Network> value;
  std::vector<float> log_std;
  std::vector<float> d_log_std;
};

class IqlLearnMode : public ContinuousLearnMode {
 public:
  IqlLearnMode(ContinuousActor* actor, const IqlOptions& options, Parts parts, Learned learned)
      : ContinuousLearnMode(actor, options.base, std::move(parts)),
        options_(options),
        learned_(std::move(learned)),
        value_outputs_(learned_.value->output_spec()),
        d_value_outputs_(learned_.value->output_spec()),
        d_outputs_(actor->network().output_spec()),
        members_(static_cast<size_t>(critics().num_critics())) {
    std::iota(members_.begin(), members_.end(), 0);
    learned_.value->set_thread_team(team());
    LearnDescription& self = description();
    self.info = absl::StrCat(self.info, "; state value, ", learned_.value->info());
    self.monitor_vars.insert(self.monitor_vars.end(), {"value_loss", "state_value", "mean_weight"});
    state()->AddNetwork("value", learned_.value.get());
    state()->AddParameters("distribution",
                           {{"log_std", {static_cast<int64_t>(learned_.log_std.size())}, 0}},
                           absl::MakeSpan(learned_.log_std));
    adam(kValueGroup).AddTo(state());
    adam(kDistributionGroup).AddTo(state());
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
                                               absl::Span<const float> /*noise*/,
                                               NamedValues* scalars) override {
    const auto rows = static_cast<size_t>(batch.obs.rows());
    DING_RETURN_IF_ERROR(targets().Infer(batch.obs, unit_actions()));
    q_.resize(rows);
    MinOverCritics(targets().q(), members_, absl::MakeSpan(q_));
    DING_RETURN_IF_ERROR(ComputeValueGradients(batch, scalars));
    DING_ASSIGN_OR_RETURN(const ColumnsView outputs, actor().Forward(batch.obs));
    const absl::Span<const float> mean = outputs.column<float>(0);
    action_.resize(mean.size());
    d_action_.resize(mean.size());
    SquashMean(mean, absl::MakeSpan(action_));
    const double loss = ComputeWeightedLikelihoodLoss(
        {unit_actions(), action_, learned_.log_std, weight_}, absl::MakeSpan(d_action_),
        absl::MakeSpan(learned_.d_log_std));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs, d_outputs_.Rows(batch.obs.rows()));
    SquashMeanBackward(action_, d_action_, d_outputs.column<float>(0));
    DING_RETURN_IF_ERROR(actor().network().Backward(d_outputs));
    return loss;
  }

  // Also computes the weights of the rows.
  absl::Status ComputeValueGradients(const TransitionView& batch, NamedValues* scalars) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, value_outputs_.Rows(batch.obs.rows()));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs,
                          d_value_outputs_.Rows(batch.obs.rows()));
    DING_RETURN_IF_ERROR(learned_.value->Forward(batch.obs, outputs));
    const absl::Span<const float> v = outputs.column<float>(0);
    const ExpectileLossResult result =
        ComputeExpectileLoss(q_, v, options_.expectile, d_outputs.column<float>(0));
    if (!std::isfinite(result.loss)) {
      return absl::InternalError(absl::StrCat("the state value's loss is ", result.loss));
    }
    weight_.resize(q_.size());
    const double mean_weight =
        ComputeAdvantageWeights(q_, v, options_.beta, absl::MakeSpan(weight_));
    scalars->Set("value_loss", result.loss);
    scalars->Set("state_value", result.mean_value);
    scalars->Set("mean_weight", mean_weight);
    return learned_.value->Backward(d_outputs);
  }

  void AfterStep(LearnStep* step) override {
    ContinuousLearnMode::AfterStep(step);
    for (float& log_std : learned_.log_std) log_std = std::clamp(log_std, kMinLogStd, kMaxLogStd);
  }

  const IqlOptions options_;
  Learned learned_;

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

absl::StatusOr<Learned> MakeLearned(std::unique_ptr<Network> value, const ContinuousActor& actor) {
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
  const size_t width = actor.scale().width();
  return Learned{std::move(value), std::vector<float>(width), std::vector<float>(width)};
}

// Appends the groups of `learned`, which learn at the rate of the critics.
absl::Status AppendGroups(const ContinuousOptions& options, Learned* learned,
                          std::vector<TrainedGroup>* groups) {
  DING_ASSIGN_OR_RETURN(GroupAdam value,
                        GroupAdam::Create({ParametersOf("value_optimizer", learned->value.get())},
                                          options.critic_adam, options.grad_clip_norm));
  DING_ASSIGN_OR_RETURN(GroupAdam distribution,
                        GroupAdam::Create({{"distribution_optimizer",
                                            {},
                                            absl::MakeSpan(learned->log_std),
                                            absl::MakeSpan(learned->d_log_std)}},
                                          options.critic_adam, /*grad_clip_norm=*/0));
  groups->push_back({std::move(value), kCriticRate});
  groups->push_back({std::move(distribution), kCriticRate});
  return absl::OkStatus();
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
  DING_ASSIGN_OR_RETURN(Learned learned, MakeLearned(std::move(networks.value), *policy->actor()));
  DING_RETURN_IF_ERROR(AppendGroups(options.base, &learned, &parts.groups));
  policy->set_learn_mode(std::make_unique<IqlLearnMode>(policy->actor(), options, std::move(parts),
                                                        std::move(learned)));
  return policy;
}

}  // namespace ding
