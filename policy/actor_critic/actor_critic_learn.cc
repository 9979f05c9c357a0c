#include "ding_worker/policy/actor_critic/actor_critic_learn.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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
#include "ding_worker/base/shuffle.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/column_binding.h"
#include "ding_worker/policy/group_adam.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {
namespace {

constexpr char kRng[] = "rng";
constexpr char kOptimizerScope[] = "optimizer";

double Variance(absl::Span<const float> values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const float value : values) sum += value;
  double squares = 0;
  for (const float value : values) squares += (value - sum / count) * (value - sum / count);
  return squares / count;
}

class ActorCriticLearn : public LearnMode {
 public:
  ActorCriticLearn(const ActorCriticPolicyOptions& options, ActorCritic* networks, GroupAdam adam)
      : options_(options),
        update_(options.update),
        loss_options_(options.update.loss_options),
        networks_(*networks),
        adam_(std::move(adam)),
        rng_(options.seed, "policy/shuffle"),
        columns_(MakeColumns(), "", "training batch"),
        minibatch_(columns_.spec()) {}

  LearnAttributes attributes() const override {
    LearnAttributes attributes = options_.learn;
    attributes.on_policy = true;
    return attributes;
  }
  std::vector<std::string> monitor_vars() const override {
    return {"cur_lr",    "total_loss",    "policy_loss", "value_loss", "entropy",
            "approx_kl", "clip_fraction", "grad_norm",   "adv_std",    "explained_var"};
  }
  std::string info() const override {
    return absl::StrCat(options_.name, " on ", networks_.info());
  }

  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    adam_.Remember();
    const Rng rng = rng_;
    const absl::Status status = Update(data, settings, steps);
    if (status.ok()) return status;
    adam_.GoBack();
    rng_ = rng;
    return Annotate(status, absl::StrCat(options_.name, ", learn"));
  }

  absl::Status SaveModel(StateWriter* writer) const override { return networks_.SaveModel(writer); }
  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }
  absl::Status SaveTrainState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteRng(kRng, rng_));
    ScopedStateWriter scoped(writer, kOptimizerScope);
    return adam_.SaveState(&scoped);
  }
  absl::Status LoadTrainState(StateReader* reader) override {
    Rng rng = rng_;
    DING_RETURN_IF_ERROR(reader->ReadRng(kRng, &rng));
    ScopedStateReader scoped(reader, kOptimizerScope);
    DING_RETURN_IF_ERROR(adam_.LoadState(&scoped));
    rng_ = rng;
    return absl::OkStatus();
  }

 private:
  // The fields of a minibatch after the inputs of the networks.
  enum Column { kTaken, kLogProb, kValue, kAdv, kReturn, kMask };
  int field(Column column) const { return networks_.inputs()->size() + column; }

  // Returns the columns that are read from a batch. The inputs of the networks come first, so that the
  // view is their input.
  SpecPtr MakeColumns() const {
    const absl::Span<const FieldSpec> inputs = networks_.inputs()->fields();
    std::vector<FieldSpec> fields(inputs.begin(), inputs.end());
    fields.push_back(networks_.distribution().taken_field());
    for (const char* const name : {kColumnLogProb, kColumnValue, kColumnAdvantage, kColumnReturn}) {
      fields.push_back(Box(name, {}));
    }
    if (networks_.mask_field().has_value()) {
      fields.push_back(networks_.observation()->field(*networks_.mask_field()));
    }
    return *MakeSpec(std::move(fields));
  }

  // Reads the batch and the settings of a call.
  absl::StatusOr<ColumnsView> Prepare(const Batch& data, const NamedValues& settings) {
    DING_ASSIGN_OR_RETURN(const ColumnsView rows, columns_.Read(data));
    if (const std::optional<double> lr = settings.Get(kSettingLr)) {
      DING_RETURN_IF_ERROR(adam_.set_lr(*lr));
    }
    DING_ASSIGN_OR_RETURN(loss_options_.entropy_coef,
                          EntropyWeight(settings, update_.loss_options.entropy_coef));
    MeasureData(rows);
    return rows;
  }

  absl::Status Update(const Batch& data, const NamedValues& settings,
                      std::vector<LearnStep>* steps) {
    const absl::StatusOr<ColumnsView> prepared = Prepare(data, settings);
    if (!prepared.ok()) {
      float no_kl = 0;  // The other learners wait with their first minibatch.
      return adam_.Average(options_.reducer, /*rows=*/0, prepared.status(),
                           absl::MakeSpan(&no_kl, 1));
    }
    const ColumnsView& rows = *prepared;
    const int64_t size =
        update_.minibatch_rows > 0 ? std::min(update_.minibatch_rows, rows.rows()) : rows.rows();
    const int64_t per_epoch = (rows.rows() + size - 1) / size;
    steps->resize(static_cast<size_t>(update_.epochs * per_epoch));
    order_.resize(static_cast<size_t>(rows.rows()));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    size_t done = 0;
    for (int64_t epoch = 0; epoch < update_.epochs; ++epoch) {
      if (per_epoch > 1) Shuffle(absl::MakeSpan(order_), &rng_);
      for (int64_t begin = 0; begin < rows.rows(); begin += size) {
        const int64_t count = std::min(size, rows.rows() - begin);
        absl::StatusOr<bool> stepped = StepOn(rows, begin, count, &(*steps)[done]);
        if (!stepped.ok()) {
          return Annotate(stepped.status(), absl::StrCat("minibatch ", done + 1));
        }
        if (!*stepped) {
          steps->resize(done);
          return absl::OkStatus();
        }
        ++done;
      }
    }
    return absl::OkStatus();
  }

  // Returns rows [begin, begin + count) of the random order.
  absl::StatusOr<ColumnsView> Minibatch(const ColumnsView& rows, int64_t begin, int64_t count) {
    if (count == rows.rows()) return rows;
    DING_ASSIGN_OR_RETURN(const MutableColumnsView minibatch, minibatch_.Rows(count));
    GatherRows(
        rows,
        absl::MakeConstSpan(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
        minibatch, 0);
    return ColumnsView(minibatch);
  }

  // Takes one optimizer step on a minibatch. Returns false, without a step, if the KL divergence is
  // above max_kl.
  absl::StatusOr<bool> StepOn(const ColumnsView& rows, int64_t begin, int64_t count,
                              LearnStep* step) {
    ActorCriticLossResult result;
    const absl::Status computed = ComputeGradients(rows, begin, count, &result);
    auto mean_kl = static_cast<float>(result.approx_kl);
    DING_RETURN_IF_ERROR(
        adam_.Average(options_.reducer, count, computed, absl::MakeSpan(&mean_kl, 1)));
    const double kl = options_.reducer == nullptr ? result.approx_kl : mean_kl;
    // This never holds for the first minibatch of a call: the policy has not changed yet.
    if (update_.max_kl > 0 && kl > update_.max_kl) return false;
    DING_ASSIGN_OR_RETURN(const double grad_norm, adam_.Step());
    Report(result, grad_norm, step);
    return true;
  }

  absl::Status ComputeGradients(const ColumnsView& all_rows, int64_t begin, int64_t minibatch_rows,
                                ActorCriticLossResult* result) {
    DING_ASSIGN_OR_RETURN(const ColumnsView rows, Minibatch(all_rows, begin, minibatch_rows));
    const auto count = static_cast<size_t>(rows.rows());
    ActionDistribution& distribution = networks_.distribution();
    DING_RETURN_IF_ERROR(networks_.Forward(rows, networks_.mask_field().has_value()
                                                     ? rows.column<uint8_t>(field(kMask))
                                                     : absl::Span<const uint8_t>()));
    for (std::vector<float>* const column :
         {&log_prob_, &entropy_, &adv_, &d_log_prob_, &d_entropy_}) {
      column->resize(count);
    }
    distribution.LogProb(rows, field(kTaken), absl::MakeSpan(log_prob_));
    distribution.Entropy(absl::MakeSpan(entropy_));
    absl::c_copy(rows.column<float>(field(kAdv)), adv_.begin());
    if (update_.normalize_adv) NormalizeAdvantages(absl::MakeSpan(adv_));
    *result = update_.loss(
        {log_prob_, entropy_, networks_.value(), rows.column<float>(field(kLogProb)),
         rows.column<float>(field(kValue)), adv_, rows.column<float>(field(kReturn))},
        loss_options_,
        {absl::MakeSpan(d_log_prob_), absl::MakeSpan(d_entropy_), networks_.d_value()});
    if (!std::isfinite(result->loss)) return NotFinite(result->loss);
    distribution.Backward(rows, field(kTaken), d_log_prob_, d_entropy_, networks_.d_head());
    return networks_.Backward();
  }

  absl::Status NotFinite(double loss) const {
    const int64_t row = FindNonFinite(log_prob_);
    return absl::InternalError(
        absl::StrCat("the loss is ", loss,
                     row < 0 ? std::string()
                             : absl::StrCat("; the log-probability of row ", row, "'s action is ",
                                            log_prob_[static_cast<size_t>(row)])));
  }

  // Computes the statistics of the data of a call, which every step reports.
  void MeasureData(const ColumnsView& rows) {
    const absl::Span<const float> adv = rows.column<float>(field(kAdv));
    const double of_returns = Variance(rows.column<float>(field(kReturn)));
    // The advantages are returns minus values.
    explained_variance_ = of_returns > 0 ? 1 - Variance(adv) / of_returns : 0;
    adv_std_ = std::sqrt(Variance(adv));
  }

  void Report(const ActorCriticLossResult& result, double grad_norm, LearnStep* step) const {
    step->Clear();
    step->scalars.Set("cur_lr", adam_.lr());
    step->scalars.Set("total_loss", result.loss);
    step->scalars.Set("policy_loss", result.policy_loss);
    step->scalars.Set("value_loss", result.value_loss);
    step->scalars.Set("entropy", result.entropy);
    step->scalars.Set("approx_kl", result.approx_kl);
    step->scalars.Set("clip_fraction", result.clip_fraction);
    step->scalars.Set("grad_norm", grad_norm);
    step->scalars.Set("adv_std", adv_std_);
    step->scalars.Set("explained_var", explained_variance_);
  }

  const ActorCriticPolicyOptions& options_;
  const ActorCriticUpdate& update_;
  ActorCriticLossOptions loss_options_;  // those of the current call
  ActorCritic& networks_;
  GroupAdam adam_;
  Rng rng_;

  ColumnBinding columns_;
  double adv_std_ = 0;
  double explained_variance_ = 0;

  // Working space, kept between calls.
  ScratchColumns minibatch_;
  std::vector<int64_t> order_;
  std::vector<float> log_prob_;
  std::vector<float> entropy_;
  std::vector<float> adv_;
  std::vector<float> d_log_prob_;
  std::vector<float> d_entropy_;
};

}  // namespace

absl::StatusOr<double> EntropyWeight(const NamedValues& settings, double configured) {
  const double weight = settings.GetOr(kSettingEntropyWeight, configured);
  if (weight >= 0 && std::isfinite(weight)) return weight;
  return absl::InvalidArgumentError(
      absl::StrCat(kSettingEntropyWeight, " is ", weight, ", must be finite and at least 0"));
}

absl::StatusOr<std::unique_ptr<LearnMode>> MakeActorCriticLearn(
    const ActorCriticPolicyOptions& options, ActorCritic* networks) {
  DING_ASSIGN_OR_RETURN(
      GroupAdam adam, GroupAdam::Create(networks->Groups(), options.adam, options.grad_clip_norm));
  return std::make_unique<ActorCriticLearn>(options, networks, std::move(adam));
}

}  // namespace ding
