#include "ding_worker/policy/impala/impala.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/action_mask.h"
#include "ding_worker/policy/actor_critic/actor_critic_learn.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/actor_critic/greedy_eval.h"
#include "ding_worker/policy/group_adam.h"
#include "ding_worker/policy/impala/impala_batch_reader.h"
#include "ding_worker/policy/impala/impala_loss.h"
#include "ding_worker/policy/recurrent_network.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {
namespace {

constexpr char kName[] = "impala";
constexpr char kRng[] = "rng";
constexpr char kOptimizerScope[] = "optimizer";

}  // namespace

class ImpalaPolicy::Collect : public CollectMode {
 public:
  Collect(const ImpalaOptions& options, ActorCritic* networks)
      : attributes_(options.policy.collect),
        networks_(*networks),
        rng_(options.policy.seed, "policy/collect") {
    const absl::Span<const FieldSpec> sampled = networks_.distribution().sample_fields();
    std::vector<FieldSpec> fields(sampled.begin(), sampled.end());
    log_prob_ = static_cast<int>(fields.size());
    fields.push_back(Box(kColumnLogProb, {}));
    output_ = *MakeSpec(std::move(fields));
  }

  const SpecPtr& output_spec() const override { return output_; }
  CollectAttributes attributes() const override { return attributes_; }

  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    return Annotate(Sample(obs, out), absl::StrCat(kName, ", collect"));
  }

  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override {
    return writer->WriteRng(kRng, rng_);
  }
  absl::Status LoadState(StateReader* reader) override { return reader->ReadRng(kRng, &rng_); }

 private:
  absl::Status Sample(const ColumnsView& obs, const MutableColumnsView& out) {
    DING_RETURN_IF_ERROR(CheckOutput(*output_, obs, out));
    if (obs.rows() == 0) return absl::OkStatus();
    const MutableColumnsView rows = out.Slice(0, obs.rows());
    DING_RETURN_IF_ERROR(networks_.Act(obs, {}));
    networks_.distribution().Sample(&rng_, rows);
    networks_.distribution().LogProb(rows, log_prob_ - 1, rows.column<float>(log_prob_));
    return absl::OkStatus();
  }

  const CollectAttributes attributes_;
  ActorCritic& networks_;
  Rng rng_;
  SpecPtr output_;
  int log_prob_ = 0;  // index in output_; the taken action is before it
};

class ImpalaPolicy::Learn : public LearnMode {
 public:
  Learn(const ImpalaOptions& options, ActorCritic* networks, GroupAdam adam)
      : options_(options.policy),
        networks_(*networks),
        adam_(std::move(adam)),
        reader_(networks->observation(), networks->distribution().taken_field()),
        next_obs_(networks->observation()) {
    loss_options_.vtrace = {options.rho_bar, options.c_bar, options.policy.gae_lambda};
    loss_options_.use_vtrace = options.v_trace;
    loss_options_.value_coef = options.policy.update.loss_options.value_coef;
  }

  LearnAttributes attributes() const override {
    LearnAttributes attributes = options_.learn;
    attributes.sequences = true;
    return attributes;
  }
  std::vector<std::string> monitor_vars() const override {
    return {"cur_lr",     "total_loss",    "policy_loss", "value_loss", "entropy",
            "mean_ratio", "clip_fraction", "approx_kl",   "grad_norm"};
  }
  ProgressVars progress_vars() const override {
    return {{"loss", "total_loss"}, {"entropy", "entropy"}, {"kl", "approx_kl"}};
  }
  // These overrides look like those of bc.cc: each is a line that hands over to parts that the two share.
  std::string info() const override { return absl::StrCat(kName, " on ", networks_.info()); }

  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    steps->resize(1);
    return Annotate(Update(data, settings, &steps->front()), absl::StrCat(kName, ", learn"));
  }

  absl::Status SaveModel(StateWriter* writer) const override { return networks_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }
  absl::Status SaveTrainState(StateWriter* writer) const override {
    ScopedStateWriter scoped(writer, kOptimizerScope);
    return adam_.SaveState(&scoped);
  }
  absl::Status LoadTrainState(StateReader* reader) override {
    ScopedStateReader scoped(reader, kOptimizerScope);
    return adam_.LoadState(&scoped);
  }

 private:
  absl::Status Update(const Batch& data, const NamedValues& settings, LearnStep* step) {
    ImpalaLossResult loss;
    const absl::StatusOr<ImpalaBatch> batch = ComputeGradients(data, settings, &loss);
    DING_RETURN_IF_ERROR(adam_.Average(options_.reducer, loss.rows, batch.status()));
    DING_ASSIGN_OR_RETURN(const double grad_norm, adam_.Step());
    if (networks_.normalizes() && !options_.freeze_statistics) AddToStatistics(*batch);
    Report(loss, grad_norm, step);
    return absl::OkStatus();
  }

  // Computes the loss and its gradients; returns what was read from `data`.
  absl::StatusOr<ImpalaBatch> ComputeGradients(const Batch& data, const NamedValues& settings,
                                               ImpalaLossResult* loss) {
    DING_ASSIGN_OR_RETURN(const ImpalaBatch batch, reader_.Read(data));
    DING_ASSIGN_OR_RETURN(loss_options_.entropy_coef,
                          EntropyWeight(settings, options_.update.loss_options.entropy_coef));
    DING_RETURN_IF_ERROR(adam_.set_lr(settings.GetOr(kSettingLr, options_.adam.lr)));
    // Before Forward(), which uses the same working memory of the networks.
    DING_RETURN_IF_ERROR(ComputeNextValues(batch));
    DING_ASSIGN_OR_RETURN(const ColumnsView inputs, networks_.Inputs(batch.rows.obs));
    DING_RETURN_IF_ERROR(
        networks_.Forward(inputs, ActionMaskOf(batch.rows.obs, networks_.mask_field())));
    const auto rows = static_cast<size_t>(data.rows());
    for (std::vector<float>* const column :
         {&log_prob_, &entropy_, &target_, &pg_advantage_, &d_log_prob_, &d_entropy_}) {
      column->resize(rows);
    }
    ActionDistribution& distribution = networks_.distribution();
    distribution.LogProb(batch.rows.action, 0, absl::MakeSpan(log_prob_));
    distribution.Entropy(absl::MakeSpan(entropy_));
    *loss = ComputeImpalaLoss(
        {batch.length,
         {batch.behaviour_log_prob, log_prob_, batch.rows.reward, batch.rows.discount,
          networks_.value(), next_value_, batch.end},
         entropy_,
         batch.mask},
        loss_options_,
        {absl::MakeSpan(target_), absl::MakeSpan(pg_advantage_), absl::MakeSpan(d_log_prob_),
         absl::MakeSpan(d_entropy_), networks_.d_value()});
    if (!std::isfinite(loss->loss)) return NotFinite(loss->loss);
    distribution.Backward(batch.rows.action, 0, d_log_prob_, d_entropy_, networks_.d_head());
    DING_RETURN_IF_ERROR(networks_.Backward());
    return batch;
  }

  // Writes V(next_obs) of the rows that need it to next_value_.
  absl::Status ComputeNextValues(const ImpalaBatch& batch) {
    next_value_.resize(batch.rows.reward.size());
    const auto count = static_cast<int64_t>(batch.bootstrap_rows.size());
    if (count == 0) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(const MutableColumnsView next_obs, next_obs_.Rows(count));
    GatherRows(batch.rows.next_obs, batch.bootstrap_rows, next_obs, 0);
    bootstrap_.resize(batch.bootstrap_rows.size());
    DING_RETURN_IF_ERROR(networks_.Values(ColumnsView(next_obs), absl::MakeSpan(bootstrap_)));
    for (size_t i = 0; i < bootstrap_.size(); ++i) {
      next_value_[static_cast<size_t>(batch.bootstrap_rows[i])] = bootstrap_[i];
    }
    return absl::OkStatus();
  }

  // Adds all rows but padding, of which the data have copies already.
  void AddToStatistics(const ImpalaBatch& batch) {
    if (batch.mask.empty()) {
      networks_.UpdateStatistics(batch.rows.obs);
      return;
    }
    for (int64_t begin = 0; begin < batch.rows.obs.rows(); begin += batch.length) {
      const absl::Span<const uint8_t> mask =
          batch.mask.subspan(static_cast<size_t>(begin), static_cast<size_t>(batch.length));
      networks_.UpdateStatistics(batch.rows.obs.Slice(begin, mask.size() - absl::c_count(mask, 0)));
    }
  }

  absl::Status NotFinite(double loss) const {
    const int64_t row = FindNonFinite(log_prob_);
    return absl::InternalError(
        absl::StrCat("the loss is ", loss,
                     row < 0 ? std::string()
                             : absl::StrCat("; the log-probability of row ", row, "'s action is ",
                                            log_prob_[static_cast<size_t>(row)])));
  }

  void Report(const ImpalaLossResult& loss, double grad_norm, LearnStep* step) const {
    step->Clear();
    step->scalars.Set("cur_lr", adam_.lr());
    step->scalars.Set("total_loss", loss.loss);
    step->scalars.Set("policy_loss", loss.policy_loss);
    step->scalars.Set("value_loss", loss.value_loss);
    step->scalars.Set("entropy", loss.entropy);
    step->scalars.Set("mean_ratio", loss.mean_ratio);
    step->scalars.Set("clip_fraction", loss.clip_fraction);
    step->scalars.Set("approx_kl", loss.approx_kl);
    step->scalars.Set("grad_norm", grad_norm);
  }

  const ActorCriticPolicyOptions& options_;
  ImpalaLossOptions loss_options_;  // the entropy weight is that of the current call
  ActorCritic& networks_;
  GroupAdam adam_;
  ImpalaBatchReader reader_;

  // Working space, kept between calls.
  ScratchColumns next_obs_;
  std::vector<float> bootstrap_;
  std::vector<float> next_value_;
  std::vector<float> log_prob_;
  std::vector<float> entropy_;
  std::vector<float> target_;
  std::vector<float> pg_advantage_;
  std::vector<float> d_log_prob_;
  std::vector<float> d_entropy_;
};

ImpalaPolicy::ImpalaPolicy(const ImpalaOptions& options) : options_(options) {}
ImpalaPolicy::~ImpalaPolicy() = default;

absl::StatusOr<std::unique_ptr<ImpalaPolicy>> ImpalaPolicy::Create(std::unique_ptr<Network> actor,
                                                                   std::unique_ptr<Network> critic,
                                                                   SpecPtr observation,
                                                                   SpecPtr action,
                                                                   const ImpalaOptions& options) {
  for (Network* const network : {actor.get(), critic.get()}) {
    if (AsRecurrent(network) == nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the network is recurrent (", network->info(), "), but ", kName,
                     " learns with feed-forward networks only; take network type 'mlp'"));
  }
  if (options.policy.reducer != nullptr && options.policy.networks.normalize_obs) {
    return absl::InvalidArgumentError(
        "normalize_obs is set in a group of learners, which would have different statistics; "
        "unset it, or use one learner");
  }
  auto policy = absl::WrapUnique(new ImpalaPolicy(options));
  DING_ASSIGN_OR_RETURN(
      policy->networks_,
      ActorCritic::Create(std::move(actor), std::move(critic), std::move(observation),
                          std::move(action), options.policy.networks));
  const ImpalaOptions& kept = policy->options_;
  const PolicyModes& modes = kept.policy.modes;
  ActorCritic* const networks = policy->networks_.get();
  if (modes.learn) {
    DING_ASSIGN_OR_RETURN(GroupAdam adam, GroupAdam::Create(networks->Groups(), kept.policy.adam,
                                                            kept.policy.grad_clip_norm));
    policy->learn_ = std::make_unique<Learn>(kept, networks, std::move(adam));
  }
  if (modes.collect) policy->collect_ = std::make_unique<Collect>(kept, networks);
  if (modes.eval) policy->eval_ = std::make_unique<GreedyEval>(kName, networks);
  if (modes.command) policy->command_ = MakeActorCriticCommand(kept.policy);
  return policy;
}

CollectMode* ImpalaPolicy::collect_mode() { return collect_.get(); }
LearnMode* ImpalaPolicy::learn_mode() { return learn_.get(); }
EvalMode* ImpalaPolicy::eval_mode() { return eval_.get(); }
CommandMode* ImpalaPolicy::command_mode() { return command_.get(); }

}  // namespace ding
