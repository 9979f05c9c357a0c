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
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/actor_critic/actor_critic_acting.h"
#include "ding_worker/policy/actor_critic/actor_critic_modes.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/network.h"

namespace ding {
namespace {

constexpr char kName[] = "impala";
constexpr char kWhere[] = "training batch";

// The columns of a batch: B sequences of T rows.
struct ImpalaBatch {
  int64_t length = 1;                          // T
  TransitionView rows;                         // [B * T]; `action` has the one field `taken`
  absl::Span<const float> behaviour_log_prob;  // [B * T]
  // [B * T]; 0: padding, which is at the end of a sequence. Empty: no row is padding.
  absl::Span<const uint8_t> mask;
  // [B * T]; 1: the episode ends with the row, or the next row of the sequence is missing.
  absl::Span<const uint8_t> end;
  // The ends whose episode has not terminated, in their order: their targets need V(next_obs).
  absl::Span<const int64_t> bootstrap_rows;
};

// Reads the columns of impala.h, and refuses values that would silently damage training.
class ImpalaBatchReader {
 public:
  // `taken` is the field whose log-probability is column "log_prob"
  // (ActionDistribution::taken_field()).
  ImpalaBatchReader(SpecPtr observation, const FieldSpec& taken);

  // The views are valid as long as `batch`, and until the next Read().
  //   kInvalidArgument  as SampledTransitionReader; padding before a row, or a sequence of padding;
  //                     burn-in; rows of several steps; importance weights
  //   kInternal         a value is NaN or infinite; names column and row
  absl::StatusOr<ImpalaBatch> Read(const Batch& batch);

 private:
  // A column that a batch may have.
  struct OptionalColumn {
    explicit OptionalColumn(const FieldSpec& field);
    absl::Status Resolve(const Spec& batch);

    ColumnBinding binding;
    bool exists = false;
  };

  absl::Status Resolve(const Spec& batch);
  absl::Status CheckWindows(const ColumnsView& columns);
  absl::Status FindEnds(ImpalaBatch* read, absl::Span<const uint8_t> is_first);

  SampledTransitionReader transitions_;
  ColumnBinding log_prob_;
  OptionalColumn mask_;
  OptionalColumn is_first_;
  OptionalColumn burn_in_;
  OptionalColumn n_step_;
  SpecPtr resolved_;  // spec of the last batch

  // Working space, kept between calls.
  std::vector<uint8_t> end_;
  std::vector<int64_t> bootstrap_rows_;
};

ImpalaBatchReader::OptionalColumn::OptionalColumn(const FieldSpec& field)
    : binding(*MakeSpec({field}), "", kWhere) {}

absl::Status ImpalaBatchReader::OptionalColumn::Resolve(const Spec& batch) {
  exists = batch.Find(binding.spec()->field(0).name).has_value();
  return exists ? binding.Resolve(batch) : absl::OkStatus();
}

ImpalaBatchReader::ImpalaBatchReader(SpecPtr observation, const FieldSpec& taken)
    : transitions_(std::move(observation), *MakeSpec({taken})),
      log_prob_(*MakeSpec({Scalar(kColumnLogProb, DType::kFloat32)}), "", kWhere),
      mask_(Scalar(kColumnMask, DType::kBool)),
      is_first_(Scalar(kColumnIsFirst, DType::kBool)),
      burn_in_(Scalar(kColumnBurnIn, DType::kBool)),
      n_step_(Scalar(kColumnNStep, DType::kInt32)) {}

absl::Status ImpalaBatchReader::Resolve(const Spec& batch) {
  DING_RETURN_IF_ERROR(log_prob_.Resolve(batch));
  for (OptionalColumn* const column : {&mask_, &is_first_, &burn_in_, &n_step_}) {
    DING_RETURN_IF_ERROR(column->Resolve(batch));
  }
  return absl::OkStatus();
}

absl::Status ImpalaBatchReader::CheckWindows(const ColumnsView& columns) {
  if (n_step_.exists) {
    const auto n_step = n_step_.binding.Bind(columns).column<int32_t>(0);
    for (size_t i = 0; i < n_step.size(); ++i) {
      if (n_step[i] == 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(kWhere, ": row ", i, " sums the rewards of ", n_step[i],
                       " steps, expected 1; set nstep of the buffer to 1"));
    }
  }
  if (burn_in_.exists) {
    const auto burn_in = burn_in_.binding.Bind(columns).column<uint8_t>(0);
    for (size_t i = 0; i < burn_in.size(); ++i) {
      if (burn_in[i] == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(kWhere, ": row ", i,
                       " is burn-in, but the network has no state to warm up; set burn_in of the "
                       "buffer to 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status ImpalaBatchReader::FindEnds(ImpalaBatch* read, absl::Span<const uint8_t> is_first) {
  const absl::Span<const uint8_t> mask = read->mask;
  const absl::Span<const float> discount = read->rows.discount;
  const auto length = static_cast<size_t>(read->length);
  end_.resize(discount.size());
  bootstrap_rows_.clear();
  for (size_t i = 0; i < end_.size(); ++i) {
    if (!mask.empty() && mask[i] == 0) {
      if (i % length == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(kWhere, ": sequence ", i / length, " begins with padding (row ", i, ")"));
      }
      end_[i] = 1;
      continue;
    }
    if (i % length != 0 && !mask.empty() && mask[i - 1] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(kWhere, ": row ", i, " of sequence ", i / length,
                       " follows padding, expected that padding is at the end of a sequence only"));
    }
    const bool last = (i + 1) % length == 0 || (!mask.empty() && mask[i + 1] == 0);
    const bool ends = last || discount[i] == 0 || (!is_first.empty() && is_first[i + 1] != 0);
    end_[i] = ends ? 1 : 0;
    if (ends && discount[i] != 0) bootstrap_rows_.push_back(static_cast<int64_t>(i));
  }
  read->end = end_;
  read->bootstrap_rows = bootstrap_rows_;
  return absl::OkStatus();
}

absl::StatusOr<ImpalaBatch> ImpalaBatchReader::Read(const Batch& batch) {
  ImpalaBatch read;
  read.length = batch.sequence_length();
  DING_ASSIGN_OR_RETURN(read.rows, transitions_.Read(batch));
  if (!read.rows.weight.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": it has importance weights (column '", kColumnWeight,
                     "'), which have no place in the loss; draw uniformly"));
  }
  if (resolved_ != batch.spec_ptr()) {
    resolved_.reset();
    DING_RETURN_IF_ERROR(Resolve(batch.spec()));
    resolved_ = batch.spec_ptr();
  }
  const ColumnsView columns = batch.view();
  const ColumnsView log_prob = log_prob_.Bind(columns);
  DING_RETURN_IF_ERROR(log_prob_.CheckValues(log_prob));
  read.behaviour_log_prob = log_prob.column<float>(0);
  DING_RETURN_IF_ERROR(CheckWindows(columns));
  if (mask_.exists) read.mask = mask_.binding.Bind(columns).column<uint8_t>(0);
  absl::Span<const uint8_t> is_first;
  if (is_first_.exists) is_first = is_first_.binding.Bind(columns).column<uint8_t>(0);
  DING_RETURN_IF_ERROR(FindEnds(&read, is_first));
  return read;
}

class ImpalaLearn : public GradientLearnMode {
 public:
  ImpalaLearn(const ImpalaOptions& options, ActorCritic* networks, GroupAdam adam)
      : GradientLearnMode({kName,
                           absl::StrCat(kName, " on ", networks->info()),
                           options.policy.learn,
                           options.policy.reducer,
                           {"cur_lr", "total_loss", "policy_loss", "value_loss", "entropy",
                            "mean_ratio", "clip_fraction", "approx_kl", "grad_norm"},
                           {{"loss", "total_loss"}, {"entropy", "entropy"}, {"kl", "approx_kl"}}},
                          std::move(adam)),
        options_(options.policy),
        networks_(*networks),
        reader_(networks->observation(), networks->distribution().taken_field()),
        next_obs_(networks->observation()) {
    description().attributes.sequences = true;
    this->adam().AddTo(state(), "optimizer");
    loss_options_.vtrace = {options.rho_bar, options.c_bar, options.policy.gae_lambda};
    loss_options_.use_vtrace = options.v_trace;
    loss_options_.value_coef = options.policy.update.loss_options.value_coef;
  }

  absl::Status SaveModel(StateWriter* writer) const override { return networks_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }

 private:
  absl::StatusOr<int64_t> ComputeGradients(const Batch& data, const NamedValues& settings,
                                           LearnStep* step) override {
    DING_ASSIGN_OR_RETURN(batch_, reader_.Read(data));
    DING_ASSIGN_OR_RETURN(loss_options_.entropy_coef,
                          EntropyWeight(settings, options_.update.loss_options.entropy_coef));
    // Without a setting, the rate is always the configured one.
    DING_RETURN_IF_ERROR(adam().set_lr(options_.adam.lr));
    // Before Forward(), which uses the same working memory of the networks.
    DING_RETURN_IF_ERROR(ComputeNextValues(batch_));
    DING_ASSIGN_OR_RETURN(const ColumnsView inputs, networks_.Inputs(batch_.rows.obs));
    DING_RETURN_IF_ERROR(
        networks_.Forward(inputs, ActionMaskOf(batch_.rows.obs, networks_.mask_field())));
    const auto rows = static_cast<size_t>(data.rows());
    for (std::vector<float>* const column :
         {&log_prob_, &entropy_, &target_, &pg_advantage_, &d_log_prob_, &d_entropy_}) {
      column->resize(rows);
    }
    ActionDistribution& distribution = networks_.distribution();
    distribution.LogProb(batch_.rows.action, 0, absl::MakeSpan(log_prob_));
    distribution.Entropy(absl::MakeSpan(entropy_));
    const ImpalaLossResult loss = ComputeImpalaLoss(
        {batch_.length,
         {batch_.behaviour_log_prob, log_prob_, batch_.rows.reward, batch_.rows.discount,
          networks_.value(), next_value_, batch_.end},
         entropy_,
         batch_.mask},
        loss_options_,
        {absl::MakeSpan(target_), absl::MakeSpan(pg_advantage_), absl::MakeSpan(d_log_prob_),
         absl::MakeSpan(d_entropy_), networks_.d_value()});
    if (!std::isfinite(loss.loss)) return PolicyLossError(loss.loss, log_prob_);
    distribution.Backward(batch_.rows.action, 0, d_log_prob_, d_entropy_, networks_.d_head());
    DING_RETURN_IF_ERROR(networks_.Backward());
    Report(loss, step);
    return loss.rows;
  }

  void AfterStep(LearnStep* /*step*/) override {
    if (networks_.normalizes() && !options_.freeze_statistics) AddToStatistics(batch_);
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

  static void Report(const ImpalaLossResult& loss, LearnStep* step) {
    step->scalars.Set("total_loss", loss.loss);
    step->scalars.Set("policy_loss", loss.policy_loss);
    step->scalars.Set("value_loss", loss.value_loss);
    step->scalars.Set("entropy", loss.entropy);
    step->scalars.Set("mean_ratio", loss.mean_ratio);
    step->scalars.Set("clip_fraction", loss.clip_fraction);
    step->scalars.Set("approx_kl", loss.approx_kl);
  }

  const ActorCriticPolicyOptions& options_;
  ImpalaLossOptions loss_options_;  // the entropy weight is that of the current call
  ActorCritic& networks_;
  ImpalaBatchReader reader_;
  ImpalaBatch batch_;  // the current one

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

}  // namespace

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
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<ActorCritic> model,
      ActorCritic::Create(std::move(actor), std::move(critic), std::move(observation),
                          std::move(action), options.policy.networks));
  ActorCritic* const networks = model.get();
  auto policy = absl::WrapUnique(new ImpalaPolicy(std::move(model), options));
  const ImpalaOptions& kept = policy->options_;
  const PolicyModes& modes = kept.policy.modes;
  if (modes.learn) {
    DING_ASSIGN_OR_RETURN(GroupAdam adam, GroupAdam::Create(networks->Groups(), kept.policy.adam,
                                                            kept.policy.grad_clip_norm));
    policy->learn_ = std::make_unique<ImpalaLearn>(kept, networks, std::move(adam));
  }
  if (modes.collect) {
    policy->collect_ = std::make_unique<SampleCollect>(kName, networks, kept.policy.collect,
                                                       kept.policy.seed, /*with_log_prob=*/true);
  }
  if (modes.eval) policy->eval_ = std::make_unique<GreedyEval>(kName, networks);
  if (modes.command) policy->command_ = MakeActorCriticCommand(kept.policy);
  return policy;
}

}  // namespace ding
