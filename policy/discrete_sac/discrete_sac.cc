#include "ding_worker/policy/discrete_sac/discrete_sac.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor_critic/actor_critic_acting.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/device/device_network.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy_modes.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/temperature.h"

namespace ding {
namespace {

constexpr char kName[] = "discrete_sac";
constexpr int kCritics = 2;
constexpr int kMembers[kCritics] = {0, 1};

// A critic with its target and its columns of a batch: values [B, A], actions and values of the
// actions taken [B]. Spans are valid until the next pass.
class DiscreteCritic {
 public:
  //   kInvalidArgument  there is no network, it has a memory, or it does not fit the spaces
  static absl::StatusOr<std::unique_ptr<DiscreteCritic>> Create(std::unique_ptr<Network> network,
                                                                const SpecPtr& observation,
                                                                const SpecPtr& action) {
    if (network == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(kName, ": the learn mode needs critics"));
    }
    if (AsRecurrent(network.get()) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          kName, " learns from single rows, which cannot train the memory of the critic ",
          network->info(), ": use a network without memory"));
    }
    DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> target, network->Clone());
    DING_ASSIGN_OR_RETURN(std::unique_ptr<QNetwork> q,
                          QNetwork::Create(kName, std::move(network), action, observation));
    return absl::WrapUnique(new DiscreteCritic(std::move(q), std::move(target)));
  }

  QNetwork& q() { return *q_; }
  Network& network() { return q_->network(); }
  Network& target() { return *target_; }
  // The values of the last pass.
  absl::Span<const float> values() const { return values_; }
  // The values of the actions taken, of the last Forward(), and the gradient by them.
  absl::Span<const float> taken() const { return taken_; }
  absl::Span<float> d_taken() { return absl::MakeSpan(d_taken_); }

  absl::Status InferTarget(const ColumnsView& inputs) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(inputs.rows()));
    values_ = outputs.column<float>(0);
    return target_->Infer(inputs, outputs);
  }

  absl::Status Forward(const ColumnsView& inputs, absl::Span<const int64_t> action) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, outputs_.Rows(inputs.rows()));
    values_ = outputs.column<float>(0);
    DING_RETURN_IF_ERROR(network().Forward(inputs, outputs));
    taken_.resize(action.size());
    d_taken_.resize(action.size());
    for (size_t i = 0; i < action.size(); ++i) taken_[i] = values_[At(i, action[i])];
    return absl::OkStatus();
  }

  // Computes the gradients of the parameters from d_taken().
  absl::Status Backward(absl::Span<const int64_t> action) {
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_outputs,
                          d_outputs_.Rows(static_cast<int64_t>(action.size())));
    const absl::Span<float> d_values = d_outputs.column<float>(0);
    absl::c_fill(d_values, 0.0f);
    for (size_t i = 0; i < action.size(); ++i) d_values[At(i, action[i])] = d_taken_[i];
    return network().Backward(d_outputs);
  }

 private:
  DiscreteCritic(std::unique_ptr<QNetwork> q, std::unique_ptr<Network> target)
      : q_(std::move(q)),
        target_(std::move(target)),
        outputs_(target_->output_spec()),
        d_outputs_(target_->output_spec()) {}

  size_t At(size_t row, int64_t action) const {
    return row * static_cast<size_t>(q_->num_actions()) + static_cast<size_t>(action);
  }

  const std::unique_ptr<QNetwork> q_;
  const std::unique_ptr<Network> target_;

  // Working space, kept between iterations.
  ScratchColumns outputs_;
  ScratchColumns d_outputs_;
  absl::Span<const float> values_;
  std::vector<float> taken_;
  std::vector<float> d_taken_;
};

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
  DING_RETURN_IF_ERROR(Temperature::Check(options.alpha));
  return CheckTargetEntropy(options.target_entropy.value_or(0), num_actions);
}

// What learns, in the order of the groups of parameters: critics, actor and temperature.
struct Learned {
  Critics critics;
  std::unique_ptr<Temperature> temperature;
  std::vector<TrainedGroup> groups;
};
enum Group : size_t { kCriticGroup, kActorGroup, kAlphaGroup };

absl::StatusOr<Learned> MakeLearned(DiscreteSacNetworks networks, Network* actor,
                                    const SpecPtr& observation, const SpecPtr& action,
                                    const DiscreteSacOptions& options) {
  Learned learned;
  DING_ASSIGN_OR_RETURN(learned.critics[0],
                        DiscreteCritic::Create(std::move(networks.critic0), observation, action));
  DING_ASSIGN_OR_RETURN(learned.critics[1],
                        DiscreteCritic::Create(std::move(networks.critic1), observation, action));
  const int64_t num_actions = learned.critics[0]->q().num_actions();
  learned.temperature = std::make_unique<Temperature>(
      options.alpha, options.target_entropy.value_or(DefaultTargetEntropy(num_actions)));
  DING_ASSIGN_OR_RETURN(
      GroupAdam critic_adam,
      GroupAdam::Create({ParametersOf("critic_optimizer/q0", &learned.critics[0]->network()),
                         ParametersOf("critic_optimizer/q1", &learned.critics[1]->network())},
                        options.critic_adam, options.grad_clip_norm));
  DING_ASSIGN_OR_RETURN(GroupAdam actor_adam,
                        GroupAdam::Create({ParametersOf("actor_optimizer", actor)},
                                          options.actor_adam, options.grad_clip_norm));
  DING_ASSIGN_OR_RETURN(TrainedGroup alpha,
                        learned.temperature->MakeGroup(options.alpha_adam, options.learn_alpha));
  learned.groups.push_back({std::move(critic_adam), kCriticRate});
  learned.groups.push_back({std::move(actor_adam), kActorRate});
  learned.groups.push_back(std::move(alpha));
  return learned;
}

LearnDescription Describe(const ActorCritic& actor, DiscreteCritic& critic,
                          const DiscreteSacOptions& options) {
  LearnDescription description;
  description.algorithm = kName;
  description.info =
      absl::StrCat(kName, " on ", actor.info(), "; 2 critics, ", critic.network().info());
  description.attributes = options.learn;
  description.reducer = options.reducer;
  // Not grad_norm, which not every iteration reports.
  description.monitor_vars = {"cur_lr",         "critic_loss", "actor_loss", "q_value",
                              "target_q_value", "td_error",    "alpha",      "entropy"};
  description.progress_vars = {{"loss", "critic_loss"}, {"alpha", "alpha"}};
  description.averages_rates = options.schedules.changes();
  description.norm_period = 10;
  return description;
}

class DiscreteSacLearn : public GradientLearnMode {
 public:
  // `network` is that of `actor`.
  DiscreteSacLearn(const DiscreteSacOptions& options, ActorCritic* actor, Network* network,
                   Learned learned)
      : GradientLearnMode(Describe(*actor, *learned.critics[0], options),
                          std::move(learned.groups)),
        options_(options),
        actor_(*actor),
        network_(*network),
        critics_(std::move(learned.critics)),
        num_actions_(critics_[0]->q().num_actions()),
        temperature_(std::move(learned.temperature)),
        reader_(actor_.observation(), actor_.action()),
        next_logits_(network_.output_spec()),
        columns_(kCritics),
        d_columns_(kCritics) {
    for (size_t k = 0; k < kCritics; ++k) {
      state()->AddNetwork(absl::StrCat("critic/q", k), &critics_[k]->network());
      state()->AddNetwork(absl::StrCat("target_critic/q", k), &critics_[k]->target());
    }
    for (const Group group : {kCriticGroup, kActorGroup, kAlphaGroup}) adam(group).AddTo(state());
    temperature_->AddTo(state());
    AddTrainIter();
  }

  absl::Status SaveModel(StateWriter* writer) const override { return actor_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return actor_.LoadModel(reader); }

 private:
  absl::StatusOr<int64_t> ComputeGradients(const Batch& data, const NamedValues& settings,
                                           LearnStep* step) override {
    const double target = settings.GetOr(kTargetEntropy, temperature_->target_entropy());
    DING_RETURN_IF_ERROR(CheckTargetEntropy(target, num_actions_));
    temperature_->set_target_entropy(target);
    DING_ASSIGN_OR_RETURN(const TransitionView batch, reader_.Read(data));
    DING_RETURN_IF_ERROR(ComputeNextValue(batch));
    DING_RETURN_IF_ERROR(ComputeCriticGradients(batch, step));
    DING_RETURN_IF_ERROR(ComputeActorGradients(batch, &step->scalars));
    return data.rows();
  }

  void AfterStep(LearnStep* step) override {
    for (const auto& critic : critics_) {
      UpdateTarget(TargetUpdate{0, options_.target_update_theta}, train_iter(), &critic->network(),
                   &critic->target());
    }
    step->scalars.Set("alpha", temperature_->alpha());
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
    ComputeSoftValues({logits.column<float>(0), LeastValues(), num_actions_, mask},
                      temperature_->alpha(), absl::MakeSpan(next_value_));
    return absl::OkStatus();
  }

  // Returns the minimum of the critics' current values [B, A].
  absl::Span<const float> LeastValues() {
    for (size_t k = 0; k < kCritics; ++k) columns_[k] = critics_[k]->values();
    least_.resize(columns_[0].size());
    MinOverCritics(columns_, kMembers, absl::MakeSpan(least_));
    return least_;
  }

  absl::Status ComputeCriticGradients(const TransitionView& batch, LearnStep* step) {
    const ColumnsView inputs = critics_[0]->q().Inputs(batch.obs);
    const absl::Span<const int64_t> action = batch.action.column<int64_t>(0);
    for (size_t k = 0; k < kCritics; ++k) {
      DING_RETURN_IF_ERROR(critics_[k]->Forward(inputs, action));
      columns_[k] = critics_[k]->taken();
      d_columns_[k] = critics_[k]->d_taken();
    }
    td_error_.resize(next_value_.size());
    const CriticLossResult result =
        ComputeCriticLoss({columns_, batch.reward, batch.discount, next_value_, batch.weight},
                          absl::MakeSpan(td_error_), d_columns_);
    if (!std::isfinite(result.loss)) {
      return LossError("the critics' loss", result.loss, td_error_);
    }
    Report(result, step);
    for (const auto& critic : critics_) DING_RETURN_IF_ERROR(critic->Backward(action));
    return absl::OkStatus();
  }

  // Uses the values that ComputeCriticGradients() has left.
  absl::Status ComputeActorGradients(const TransitionView& batch, NamedValues* scalars) {
    const absl::Span<const uint8_t> mask = ActionMaskOf(batch.obs, actor_.mask_field());
    DING_ASSIGN_OR_RETURN(const ColumnsView inputs, actor_.Inputs(batch.obs));
    DING_RETURN_IF_ERROR(actor_.Forward(inputs, mask));
    mean_log_prob_.resize(batch.reward.size());
    const double loss = ComputeDiscreteSacActorLoss(
        {actor_.head(), LeastValues(), num_actions_, mask}, temperature_->alpha(),
        absl::MakeSpan(mean_log_prob_), actor_.d_head());
    if (!std::isfinite(loss)) {
      return absl::InternalError(absl::StrCat("the actor's loss is ", loss));
    }
    scalars->Set("actor_loss", loss);
    scalars->Set("entropy", temperature_->ComputeGradient(mean_log_prob_));
    return actor_.Backward();
  }

  void Report(const CriticLossResult& result, LearnStep* step) const {
    step->scalars.Set("critic_loss", result.loss);
    step->scalars.Set("q_value", result.mean_q);
    step->scalars.Set("target_q_value", result.mean_target);
    ReportTdErrors(td_error_, static_cast<int64_t>(td_error_.size()), step);
  }

  const DiscreteSacOptions options_;
  ActorCritic& actor_;
  Network& network_;
  const Critics critics_;
  const int64_t num_actions_;
  const std::unique_ptr<Temperature> temperature_;

  // Working space, kept between iterations.
  SampledTransitionReader reader_;
  ScratchColumns next_logits_;
  CriticColumns columns_;
  MutableCriticColumns d_columns_;
  std::vector<float> least_;
  std::vector<float> next_value_;
  std::vector<float> td_error_;
  std::vector<float> mean_log_prob_;
};

}  // namespace

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
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<ActorCritic> model,
      ActorCritic::Create(std::move(networks.actor), nullptr, observation, action, actor_options));
  ActorCritic* const actor = model.get();
  if (actor->state_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kName, " learns from single rows, which cannot train the memory of ",
                     actor->info(), ": use a network without memory"));
  }
  auto policy = absl::WrapUnique(new DiscreteSacPolicy(std::move(model)));
  if (options.modes.learn) {
    DING_ASSIGN_OR_RETURN(Learned learned,
                          MakeLearned(std::move(networks), network, observation, action, options));
    policy->learn_ =
        std::make_unique<DiscreteSacLearn>(options, actor, network, std::move(learned));
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
