#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/running_normalizer.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/sequence_samples.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/actor_critic/actor_critic_modes.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/policy.h"

namespace ding {
namespace {

const double kLeastLogEntropyWeight = std::log(kLeastEntropyWeight);
const double kMostLogEntropyWeight = std::log(kMostEntropyWeight);

// Returns the variance of the values whose `mask` is 1; of all of them if it is empty.
double Variance(absl::Span<const float> values, absl::Span<const uint8_t> mask) {
  double count = 0;
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!mask.empty() && mask[i] == 0) continue;
    sum += values[i];
    count += 1;
  }
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!mask.empty() && mask[i] == 0) continue;
    squares += (values[i] - sum / count) * (values[i] - sum / count);
  }
  return squares / count;
}

class ActorCriticLearn : public GradientLearnMode {
 public:
  ActorCriticLearn(const ActorCriticPolicyOptions& options, ActorCritic* networks, GroupAdam adam)
      : GradientLearnMode({options.name,
                           absl::StrCat(options.name, " on ", networks->info()),
                           options.learn,
                           options.reducer,
                           {"cur_lr", "total_loss", "policy_loss", "value_loss", "entropy",
                            "approx_kl", "clip_fraction", "grad_norm", "adv_std", "explained_var"},
                           {{"loss", "total_loss"}, {"entropy", "entropy"}, {"kl", "approx_kl"}}},
                          std::move(adam)),
        options_(options),
        update_(options.update),
        loss_options_(options.update.loss_options),
        networks_(*networks),
        rng_(options.seed, "policy/shuffle"),
        log_entropy_weight_(std::log(options.update.loss_options.entropy_coef)),
        sample_rows_(options.collect.unroll_len),
        columns_(MakeColumns(), "", "training batch"),
        minibatch_spec_(MakeMinibatchSpec()),
        minibatch_(minibatch_spec_),
        statistics_columns_(MakeStatisticsColumns(), "", "training batch"),
        raw_rows_(statistics_columns_.spec()) {
    description().attributes.on_policy = true;
    description().attributes.sequences = sequences();
    state()->AddRng("rng", &rng_);
    if (adapts_entropy_weight()) {
      description().monitor_vars.push_back(kSettingEntropyWeight);
      state()->AddNumber(
          "log_entropy_weight", kLeastLogEntropyWeight, kMostLogEntropyWeight,
          [this] { return log_entropy_weight_; },
          [this](double weight) { log_entropy_weight_ = weight; });
    }
    this->adam().AddTo(state(), "optimizer");
  }

  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    adam().Remember();
    const Rng rng = rng_;
    const double log_entropy_weight = log_entropy_weight_;
    const absl::Status status = Update(data, settings, steps);
    if (status.ok()) return status;
    adam().GoBack();
    rng_ = rng;
    log_entropy_weight_ = log_entropy_weight;
    return Annotate(status, absl::StrCat(options_.name, ", learn"));
  }

  absl::Status SaveModel(StateWriter* writer) const override { return networks_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }

 private:
  // The fields of a minibatch after the inputs of the networks. The masks follow if there are any.
  enum Column { kTaken, kLogProb, kValue, kAdv, kReturn, kFirstMask };
  int field(Column column) const { return networks_.inputs()->size() + column; }
  // The mask of legal actions, and that of the rows that are not padding; empty: all are legal, or
  // none is.
  absl::Span<const uint8_t> LegalActions(const ColumnsView& rows) const {
    return has_action_mask() ? rows.column<uint8_t>(field(kFirstMask))
                             : absl::Span<const uint8_t>();
  }
  absl::Span<const uint8_t> RowMask(const ColumnsView& rows) const {
    return sequences() ? rows.column<uint8_t>(field(kFirstMask) + (has_action_mask() ? 1 : 0))
                       : absl::Span<const uint8_t>();
  }
  bool has_action_mask() const { return networks_.mask_field().has_value(); }
  bool sequences() const { return sample_rows_ > 1; }
  bool recurrent() const { return networks_.state_size() > 0; }
  bool adapts_entropy_weight() const { return update_.target_entropy.has_value(); }

  // Returns the columns that are read from a batch. The inputs of the networks come first, so that
  // the view is their input. The recurrent states come last, because minibatches do not need those
  // of all rows.
  SpecPtr MakeColumns() const {
    const absl::Span<const FieldSpec> inputs = networks_.inputs()->fields();
    std::vector<FieldSpec> fields(inputs.begin(), inputs.end());
    fields.push_back(networks_.distribution().taken_field());
    for (const char* const name : {kColumnLogProb, kColumnValue, kColumnAdvantage, kColumnReturn}) {
      fields.push_back(Box(name, {}));
    }
    if (has_action_mask()) {
      fields.push_back(networks_.observation()->field(*networks_.mask_field()));
    }
    if (sequences()) fields.push_back(Scalar(kColumnMask, DType::kBool));
    if (recurrent()) fields.push_back(Box(kColumnRnnState, {networks_.state_size()}));
    return *MakeSpec(std::move(fields));
  }
  // Whether the learn mode keeps the statistics.
  bool updates_obs() const {
    return !options_.modes.collect && networks_.normalizes() && !options_.freeze_statistics;
  }
  bool updates_returns() const { return !options_.modes.collect && options_.scale_reward; }

  // Returns the columns of which statistics are made: the raw inputs, then the discounted return,
  // and the mask of padding.
  SpecPtr MakeStatisticsColumns() const {
    std::vector<FieldSpec> fields;
    if (updates_obs()) {
      for (FieldSpec field : networks_.inputs()->fields()) {
        field.name = absl::StrCat(kRawPrefix, field.name);
        fields.push_back(std::move(field));
      }
    }
    if (updates_returns()) fields.push_back(Box(kRawReturn, {}));
    if (!fields.empty() && sequences()) fields.push_back(Scalar(kColumnMask, DType::kBool));
    return fields.empty() ? std::make_shared<const Spec>() : *MakeSpec(std::move(fields));
  }

  absl::StatusOr<ColumnsView> ReadStatistics(const Batch& data) {
    if (!updates_obs() && !updates_returns()) return ColumnsView();
    absl::StatusOr<ColumnsView> read = statistics_columns_.Read(data);
    if (read.ok()) return read;
    return Annotate(read.status(),
                    "the statistics of normalization are those of a worker of another version; "
                    "all workers of a run must have the same");
  }

  // Adds the rows that are not padding to the statistics, each with the same weight. A group adds
  // the rows of all its learners. An error changes nothing.
  absl::Status AddStatistics(ColumnsView rows) {
    if (!updates_obs() && !updates_returns()) return absl::OkStatus();
    if (sequences()) {
      const absl::Span<const uint8_t> mask = rows.column<uint8_t>(rows.spec().size() - 1);
      rows_of_samples_.clear();
      for (size_t i = 0; i < mask.size(); ++i) {
        if (mask[i] != 0) rows_of_samples_.push_back(static_cast<int64_t>(i));
      }
      const auto count = static_cast<int64_t>(rows_of_samples_.size());
      DING_ASSIGN_OR_RETURN(const MutableColumnsView kept, raw_rows_.Rows(count));
      GatherRows(rows, rows_of_samples_, kept, 0);
      rows = ColumnsView(kept);
    }
    const auto sum = [this](absl::Span<double> values) {
      return SumOverLearners(options_.reducer, values);
    };
    RunningNormalizer returns = networks_.return_statistics();
    if (updates_returns()) {
      const int field = updates_obs() ? networks_.inputs()->size() : 0;
      DING_RETURN_IF_ERROR(returns.Update(rows.column<float>(field), sum));
    }
    if (updates_obs()) {
      const ColumnsView inputs = rows.Fields(networks_.inputs().get(), 0);
      DING_RETURN_IF_ERROR(networks_.UpdateInputStatistics(inputs, sum));
    }
    networks_.return_statistics() = std::move(returns);
    return absl::OkStatus();
  }

  // Returns the columns of a minibatch: those above without the recurrent states.
  SpecPtr MakeMinibatchSpec() const {
    if (!recurrent()) return columns_.spec();
    const absl::Span<const FieldSpec> fields = columns_.spec()->fields();
    return *MakeSpec(std::vector<FieldSpec>(fields.begin(), fields.end() - 1));
  }

  // Reads the batch and the settings of a call.
  absl::StatusOr<ColumnsView> Prepare(const Batch& data, const NamedValues& settings) {
    if (data.empty() && sequences() && options_.last_sample == LastSample::kDrop) {
      return absl::InvalidArgumentError(absl::StrCat(
          "training batch: it has no samples, because no segment has unroll_len ", sample_rows_,
          " rows and last_sample DROP drops the others: collect more, or set a smaller unroll_len "
          "or ",
          "another last_sample"));
    }
    DING_ASSIGN_OR_RETURN(const ColumnsView rows, columns_.Read(data));
    DING_RETURN_IF_ERROR(CheckSamples(data, RowMask(rows)));
    DING_RETURN_IF_ERROR(ReadRates(settings));
    DING_ASSIGN_OR_RETURN(loss_options_.entropy_coef,
                          EntropyWeight(settings, update_.loss_options.entropy_coef));
    DING_RETURN_IF_ERROR(ReadUpdateSettings(settings));
    MeasureData(rows);
    return rows;
  }

  // Reads the settings that change how a call learns.
  absl::Status ReadUpdateSettings(const NamedValues& settings) {
    loss_options_.ratio_clip = settings.GetOr(kSettingClipRatio, update_.loss_options.ratio_clip);
    if (!(loss_options_.ratio_clip > 0 && std::isfinite(loss_options_.ratio_clip))) {
      return absl::InvalidArgumentError(absl::StrCat(
          kSettingClipRatio, " is ", loss_options_.ratio_clip, ", must be finite and above 0"));
    }
    target_entropy_ = settings.GetOr(kSettingTargetEntropy, update_.target_entropy.value_or(0));
    if (std::isfinite(target_entropy_)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(kSettingTargetEntropy, " is ", target_entropy_, ", must be finite"));
  }

  absl::Status CheckSamples(const Batch& data, absl::Span<const uint8_t> mask) const {
    if (data.sequence_length() != sample_rows_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "training batch: samples of ", data.sequence_length(), " rows, expected unroll_len ",
          sample_rows_, ", as GetTrainSample() of the ", "collect mode makes them"));
    }
    for (size_t i = 0; i < mask.size(); i += static_cast<size_t>(sample_rows_)) {
      if (mask[i] != 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("training batch: sample ", i / static_cast<size_t>(sample_rows_),
                       " begins with padding ('", kColumnMask, "' is 0), expected a row"));
    }
    return absl::OkStatus();
  }

  absl::Status Update(const Batch& data, const NamedValues& settings,
                      std::vector<LearnStep>* steps) {
    const absl::StatusOr<ColumnsView> prepared = Prepare(data, settings);
    const absl::StatusOr<ColumnsView> statistics =
        prepared.ok() ? ReadStatistics(data) : absl::StatusOr<ColumnsView>(prepared.status());
    const int64_t samples = prepared.ok() ? prepared->rows() / sample_rows_ : 0;
    auto group_samples = static_cast<double>(samples);
    DING_RETURN_IF_ERROR(
        SumOverLearners(options_.reducer, absl::MakeSpan(&group_samples, 1), statistics.status()));
    const ColumnsView& rows = *prepared;
    // The learners of a group take the same minibatches together, each with its part of them:
    // learners with different numbers of samples take equally many steps.
    const auto all = static_cast<int64_t>(group_samples);
    const int64_t size = update_.minibatch_size > 0 ? std::min(update_.minibatch_size, all) : all;
    const int64_t per_epoch = (all + size - 1) / size;
    const auto part_of = [&](int64_t of_all) { return samples * std::min(of_all, all) / all; };
    steps->resize(static_cast<size_t>(update_.epochs * per_epoch));
    order_.resize(static_cast<size_t>(samples));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    size_t done = 0;
    for (int64_t epoch = 0; epoch < update_.epochs; ++epoch) {
      if (per_epoch > 1) Shuffle(absl::MakeSpan(order_), &rng_);
      for (int64_t minibatch = 0; minibatch < per_epoch; ++minibatch) {
        const int64_t begin = part_of(minibatch * size);
        const int64_t end = part_of((minibatch + 1) * size);
        absl::StatusOr<bool> stepped = StepOn(rows, begin, end - begin, &(*steps)[done]);
        if (!stepped.ok()) {
          return Annotate(stepped.status(), absl::StrCat("minibatch ", done + 1));
        }
        if (!*stepped) {
          steps->resize(done);
          return AddStatistics(*statistics);
        }
        ++done;
      }
    }
    return AddStatistics(*statistics);
  }

  // Returns samples [begin, begin + count) of the random order, and sets the states before them.
  absl::StatusOr<ColumnsView> Minibatch(const ColumnsView& rows, int64_t begin, int64_t count) {
    const absl::Span<const int64_t> chosen =
        absl::MakeConstSpan(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
    if (recurrent()) GatherStates(rows, chosen);
    const ColumnsView source = rows.Fields(minibatch_spec_.get(), 0);
    if (count * sample_rows_ == rows.rows()) return source;
    DING_ASSIGN_OR_RETURN(const MutableColumnsView minibatch,
                          minibatch_.Rows(count * sample_rows_));
    GatherRows(source, RowsOf(chosen), minibatch, 0);
    return ColumnsView(minibatch);
  }

  absl::Span<const int64_t> RowsOf(absl::Span<const int64_t> samples) {
    if (!sequences()) return samples;
    rows_of_samples_.clear();
    for (const int64_t sample : samples) {
      for (int64_t t = 0; t < sample_rows_; ++t) {
        rows_of_samples_.push_back(sample * sample_rows_ + t);
      }
    }
    return rows_of_samples_;
  }

  // Copies the states before the first rows of these samples.
  void GatherStates(const ColumnsView& rows, absl::Span<const int64_t> samples) {
    const auto size = static_cast<size_t>(networks_.state_size());
    const absl::Span<const float> all = rows.column<float>(minibatch_spec_->size());
    states_.clear();
    for (const int64_t sample : samples) {
      const absl::Span<const float> state =
          all.subspan(static_cast<size_t>(sample * sample_rows_) * size, size);
      states_.insert(states_.end(), state.begin(), state.end());
    }
  }

  // Takes one optimizer step on a minibatch of `count` samples. In a group `count` may be 0: this
  // learner then takes the step that the others compute. Returns false, without a step, if the KL
  // divergence is above max_kl.
  absl::StatusOr<bool> StepOn(const ColumnsView& all, int64_t begin, int64_t count,
                              LearnStep* step) {
    ActorCriticLossResult result;
    own_scalars_.Clear();
    int64_t learned_rows = 0;
    if (adapts_entropy_weight()) loss_options_.entropy_coef = std::exp(log_entropy_weight_);
    const absl::Status computed = [&]() -> absl::Status {
      if (count == 0) return absl::OkStatus();
      DING_ASSIGN_OR_RETURN(const ColumnsView rows, Minibatch(all, begin, count));
      learned_rows = rows.rows() - absl::c_count(RowMask(rows), 0);
      return ComputeLoss(rows, &result);
    }();
    float means[2] = {static_cast<float>(result.approx_kl), static_cast<float>(result.entropy)};
    DING_RETURN_IF_ERROR(Average(learned_rows, computed, Shared(means)));
    const double kl = options_.reducer == nullptr ? result.approx_kl : means[0];
    // This never holds for the first minibatch of a call: the policy has not changed yet.
    if (update_.max_kl > 0 && kl > update_.max_kl) return false;
    BeginReport(step);
    DING_RETURN_IF_ERROR(Step(step));
    Report(result, step);
    if (adapts_entropy_weight()) {
      AdaptEntropyWeight(options_.reducer == nullptr ? result.entropy : means[1]);
    }
    return true;
  }

  // What the learners of a group average beside gradients: the KL divergence, and the entropy if it
  // is needed.
  absl::Span<float> Shared(float (&means)[2]) const {
    return absl::MakeSpan(means, adapts_entropy_weight() ? 2 : 1);
  }

  void AdaptEntropyWeight(double entropy) {
    const double moved =
        log_entropy_weight_ + update_.entropy_weight_rate * (target_entropy_ - entropy);
    log_entropy_weight_ = std::clamp(moved, kLeastLogEntropyWeight, kMostLogEntropyWeight);
  }

  // Computes the loss of a minibatch and its gradients.
  absl::Status ComputeLoss(const ColumnsView& rows, ActorCriticLossResult* result) {
    const auto count = static_cast<size_t>(rows.rows());
    ActionDistribution& distribution = networks_.distribution();
    DING_RETURN_IF_ERROR(networks_.Forward(rows, LegalActions(rows), sample_rows_, states_));
    for (std::vector<float>* const column :
         {&log_prob_, &entropy_, &adv_, &d_log_prob_, &d_entropy_}) {
      column->resize(count);
    }
    distribution.LogProb(rows, field(kTaken), absl::MakeSpan(log_prob_));
    distribution.Entropy(absl::MakeSpan(entropy_));
    absl::c_copy(rows.column<float>(field(kAdv)), adv_.begin());
    const absl::Span<const uint8_t> mask = RowMask(rows);
    if (update_.normalize_adv) NormalizeAdvantages(absl::MakeSpan(adv_), mask);
    const auto of = [&](Column column) { return rows.column<float>(field(column)); };
    const ActorCriticLossInput input = {log_prob_,  entropy_, networks_.value(), of(kLogProb),
                                        of(kValue), adv_,     of(kReturn),       mask};
    const ActorCriticLossGradient gradient = {absl::MakeSpan(d_log_prob_),
                                              absl::MakeSpan(d_entropy_), networks_.d_value()};
    *result = update_.loss(input, loss_options_, gradient);
    if (update_.own_loss != nullptr) {
      DING_ASSIGN_OR_RETURN(
          LossValue own,
          ComputeOwnLoss(update_.own_loss.get(), AsLossInput(input, loss_options_, gradient)));
      result->loss = own.loss;
      own_scalars_ = std::move(own.scalars);
    }
    if (!std::isfinite(result->loss)) return PolicyLossError(result->loss, log_prob_);
    distribution.Backward(rows, field(kTaken), d_log_prob_, d_entropy_, networks_.d_head());
    return networks_.Backward();
  }

  // Computes the statistics of the data of a call, which every step reports.
  void MeasureData(const ColumnsView& rows) {
    const absl::Span<const uint8_t> mask = RowMask(rows);
    const double of_adv = Variance(rows.column<float>(field(kAdv)), mask);
    const double of_returns = Variance(rows.column<float>(field(kReturn)), mask);
    // The advantages are returns minus values.
    explained_variance_ = of_returns > 0 ? 1 - of_adv / of_returns : 0;
    adv_std_ = std::sqrt(of_adv);
  }

  void Report(const ActorCriticLossResult& result, LearnStep* step) const {
    step->scalars.Set("total_loss", result.loss);
    step->scalars.Set("policy_loss", result.policy_loss);
    step->scalars.Set("value_loss", result.value_loss);
    step->scalars.Set("entropy", result.entropy);
    step->scalars.Set("approx_kl", result.approx_kl);
    step->scalars.Set("clip_fraction", result.clip_fraction);
    step->scalars.Set("adv_std", adv_std_);
    step->scalars.Set("explained_var", explained_variance_);
    if (adapts_entropy_weight()) {
      step->scalars.Set(kSettingEntropyWeight, loss_options_.entropy_coef);
    }
    for (const NamedValues::Entry& scalar : own_scalars_) {
      step->scalars.Set(scalar.first, scalar.second);
    }
  }

  const ActorCriticPolicyOptions& options_;
  const ActorCriticUpdate& update_;
  ActorCriticLossOptions loss_options_;  // those of the current call
  ActorCritic& networks_;
  Rng rng_;
  double log_entropy_weight_;  // if it is adapted
  double target_entropy_ = 0;  // of the current call

  const int64_t sample_rows_;  // rows of a sample
  ColumnBinding columns_;
  const SpecPtr minibatch_spec_;
  NamedValues own_scalars_;  // of the current minibatch
  double adv_std_ = 0;
  double explained_variance_ = 0;

  // Working space, kept between calls.
  ScratchColumns minibatch_;
  ColumnBinding statistics_columns_;
  ScratchColumns raw_rows_;     // those that are not padding
  std::vector<int64_t> order_;  // of the samples
  std::vector<int64_t> rows_of_samples_;
  std::vector<float> states_;  // before the samples of the minibatch; empty: the networks have none
  std::vector<float> log_prob_;
  std::vector<float> entropy_;
  std::vector<float> adv_;
  std::vector<float> d_log_prob_;
  std::vector<float> d_entropy_;
};

}  // namespace

absl::Status PolicyLossError(double loss, absl::Span<const float> log_prob) {
  const int64_t row = FindNonFinite(log_prob);
  return absl::InternalError(
      absl::StrCat("the loss is ", loss,
                   row < 0 ? std::string()
                           : absl::StrCat("; the log-probability of row ", row, "'s action is ",
                                          log_prob[static_cast<size_t>(row)])));
}

absl::StatusOr<double> EntropyWeight(const NamedValues& settings, double configured) {
  const double weight = settings.GetOr(kSettingEntropyWeight, configured);
  if (weight >= 0 && std::isfinite(weight)) return weight;
  return absl::InvalidArgumentError(
      absl::StrCat(kSettingEntropyWeight, " is ", weight, ", must be finite and at least 0"));
}

absl::StatusOr<std::unique_ptr<LearnMode>> MakeActorCriticLearn(
    const ActorCriticPolicyOptions& options, ActorCritic* networks) {
  const double weight = options.update.loss_options.entropy_coef;
  if (options.update.target_entropy.has_value() &&
      !(weight >= kLeastEntropyWeight && weight <= kMostEntropyWeight)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the first entropy weight is ", weight,
                     ", from which it is adapted to target_entropy: must be in [",
                     kLeastEntropyWeight, ", ", kMostEntropyWeight, "]"));
  }
  DING_ASSIGN_OR_RETURN(
      GroupAdam adam, GroupAdam::Create(networks->Groups(), options.adam, options.grad_clip_norm));
  return std::make_unique<ActorCriticLearn>(options, networks, std::move(adam));
}

}  // namespace ding
