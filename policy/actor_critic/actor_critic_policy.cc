#include "ding_worker/policy/actor_critic/actor_critic_policy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/shuffle.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_mask.h"
#include "ding_worker/policy/actor_critic/greedy_eval.h"
#include "ding_worker/policy/column_binding.h"
#include "ding_worker/policy/group_adam.h"
#include "ding_worker/policy/reward_scaler.h"
#include "ding_worker/policy/schedule.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {
namespace {

constexpr char kRng[] = "rng";
constexpr char kOptimizerScope[] = "optimizer";
constexpr char kRewardScalerScope[] = "reward_scaler";
constexpr char kLr[] = "lr";
constexpr char kEntropyWeight[] = "entropy_weight";
constexpr char kEnvStep[] = "envstep";

FieldSpec FloatColumn(absl::string_view name) { return Box(name, {}); }

double Variance(absl::Span<const float> values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const float value : values) sum += value;
  double squares = 0;
  for (const float value : values) squares += (value - sum / count) * (value - sum / count);
  return squares / count;
}

}  // namespace

class ActorCriticPolicy::Collect : public CollectMode {
 public:
  Collect(const ActorCriticPolicyOptions& options, ActorCritic* actor_critic)
      : options_(options),
        networks_(*actor_critic),
        rng_(options.seed, "policy/collect"),
        reward_scaler_(options.gamma) {
    const absl::Span<const FieldSpec> sampled = networks_.distribution().sample_fields();
    std::vector<FieldSpec> fields(sampled.begin(), sampled.end());
    head_ = static_cast<int>(fields.size());
    fields.push_back(networks_.distribution().head());
    fields.push_back(FloatColumn(kColumnLogProb));
    fields.push_back(FloatColumn(kColumnValue));
    output_ = *MakeSpec(std::move(fields));
  }

  const SpecPtr& output_spec() const override { return output_; }
  CollectAttributes attributes() const override {
    CollectAttributes attributes = options_.collect;
    attributes.on_policy = true;
    return attributes;
  }

  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    return Annotate(Sample(obs, out), absl::StrCat(options_.name, ", collect"));
  }

  absl::StatusOr<SegmentBatch> GetTrainSample(SegmentBatch data) override {
    absl::StatusOr<Batch> rows = MakeTrainRows(data);
    if (!rows.ok()) {
      return Annotate(rows.status(), absl::StrCat(options_.name, ", training data"));
    }
    data.rows = *std::move(rows);
    return data;
  }

  absl::Status LoadModel(StateReader* reader) override { return networks_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteRng(kRng, rng_));
    if (!options_.scale_reward) return absl::OkStatus();
    ScopedStateWriter scoped(writer, kRewardScalerScope);
    return reward_scaler_.SaveState(&scoped);
  }
  absl::Status LoadState(StateReader* reader) override {
    Rng rng = rng_;
    DING_RETURN_IF_ERROR(reader->ReadRng(kRng, &rng));
    if (options_.scale_reward) {
      ScopedStateReader scoped(reader, kRewardScalerScope);
      DING_RETURN_IF_ERROR(reward_scaler_.LoadState(&scoped));
    }
    rng_ = rng;
    return absl::OkStatus();
  }

 private:
  absl::Status Sample(const ColumnsView& obs, const MutableColumnsView& out) {
    DING_RETURN_IF_ERROR(CheckOutput(*output_, obs, out));
    if (obs.rows() == 0) return absl::OkStatus();
    const MutableColumnsView rows = out.Slice(0, obs.rows());
    DING_RETURN_IF_ERROR(networks_.Act(obs, rows.column<float>(head_ + 2)));
    absl::c_copy(networks_.head(), rows.column<float>(head_).begin());
    networks_.distribution().Sample(&rng_, rows);
    networks_.distribution().LogProb(rows, head_ - 1, rows.column<float>(head_ + 1));
    return absl::OkStatus();
  }

  // The rows of `data` with advantages and returns.
  absl::StatusOr<Batch> MakeTrainRows(const SegmentBatch& data) {
    DING_RETURN_IF_ERROR(ValidateSegments(data));
    DING_RETURN_IF_ERROR(Resolve(data.rows.spec_ptr()));
    DING_RETURN_IF_ERROR(CheckRows(data));
    DING_RETURN_IF_ERROR(ComputeFinalValues(data));
    DING_ASSIGN_OR_RETURN(BatchBuilder made, pool_->Allocate(std::max<int64_t>(1, data.size())));
    const MutableColumnsView rows = made.view().Slice(0, data.size());
    CopyRows(data.rows.view(), rows, 0);
    if (data.size() == 0) return std::move(made).Seal(0);
    const absl::Span<float> reward = rows.column<float>(reward_);
    if (options_.scale_reward) reward_scaler_.Scale(data.segments, reward);
    const absl::Span<const float> value = rows.column<float>(value_);
    const absl::Span<float> adv = rows.column<float>(data.rows.spec().size());
    const absl::Span<float> returns = rows.column<float>(data.rows.spec().size() + 1);
    for (size_t i = 0; i < data.segments.size(); ++i) {
      const Segment& segment = data.segments[i];
      const auto begin = static_cast<size_t>(segment.begin);
      const auto length = static_cast<size_t>(segment.length);
      ComputeGae({reward.subspan(begin, length), value.subspan(begin, length), final_value_[i],
                  segment.end},
                 options_.gamma, options_.gae_lambda, adv.subspan(begin, length));
    }
    for (size_t i = 0; i < adv.size(); ++i) returns[i] = adv[i] + value[i];
    if (networks_.normalizes()) {
      networks_.NormalizeInputs(rows);
      if (!options_.freeze_statistics) networks_.UpdateStatistics(data.rows.view());
    }
    return std::move(made).Seal(data.size());
  }

  // Finds the columns of rows of that layout.
  absl::Status Resolve(const SpecPtr& spec) {
    if (pool_.has_value() && resolved_ == spec) return absl::OkStatus();
    DING_RETURN_IF_ERROR(CheckFirstFields(*networks_.observation(), *spec, "rows"));
    DING_ASSIGN_OR_RETURN(const int reward, spec->IndexOf(kColumnReward, "rows"));
    DING_ASSIGN_OR_RETURN(const int value, spec->IndexOf(kColumnValue, "rows"));
    std::vector<FieldSpec> fields(spec->fields().begin(), spec->fields().end());
    fields.push_back(FloatColumn(kColumnAdvantage));
    fields.push_back(FloatColumn(kColumnReturn));
    DING_ASSIGN_OR_RETURN(SpecPtr train_rows, MakeSpec(std::move(fields)));
    pool_.emplace(std::move(train_rows));
    reward_ = reward;
    value_ = value;
    resolved_ = spec;
    return absl::OkStatus();
  }

  // What would be silent damage in statistics and advantages.
  absl::Status CheckRows(const SegmentBatch& data) const {
    const Spec& spec = data.rows.spec();
    for (int i = 0; i < spec.size(); ++i) {
      const bool used = i == reward_ || i == value_ ||
                        (networks_.normalizes() && IsObsColumn(spec.field(i).name));
      if (!used || spec.field(i).dtype != DType::kFloat32) continue;
      const int64_t bad = FindNonFinite(data.rows.column<float>(i));
      if (bad < 0) continue;
      return absl::InternalError(absl::StrCat(
          "column '", spec.field(i).name, "', row ", bad / spec.field(i).num_elements(), " holds ",
          data.rows.column<float>(i)[static_cast<size_t>(bad)]));
    }
    return absl::OkStatus();
  }

  absl::Status ComputeFinalValues(const SegmentBatch& data) {
    final_value_.resize(data.segments.size());
    if (data.segments.empty()) return absl::OkStatus();
    DING_RETURN_IF_ERROR(networks_.Values(data.final_obs.view(), absl::MakeSpan(final_value_)));
    for (size_t i = 0; i < final_value_.size(); ++i) {
      if (data.segments[i].end == SegmentEnd::kTerminated || std::isfinite(final_value_[i]))
        continue;
      return absl::InternalError(
          absl::StrCat("the value of final_obs ", i, " is ", final_value_[i]));
    }
    return absl::OkStatus();
  }

  const ActorCriticPolicyOptions& options_;
  ActorCritic& networks_;
  Rng rng_;
  RewardScaler reward_scaler_;
  SpecPtr output_;
  int head_ = 0;  // its field in output_; before it what was taken, behind it log_prob and value

  std::optional<BlockPool> pool_;
  SpecPtr resolved_;  // of the rows that the indices below belong to
  int reward_ = -1;
  int value_ = -1;
  std::vector<float> final_value_;
};

class ActorCriticPolicy::Command : public CommandMode {
 public:
  explicit Command(const ActorCriticPolicyOptions& options) : options_(options) {}

  NamedValues GetSettingCollect(const NamedValues& /*info*/) override { return {}; }
  NamedValues GetSettingLearn(const NamedValues& info) override {
    const double env_step = info.GetOr(kEnvStep, 0);
    NamedValues settings;
    if (options_.lr_decay_env_steps > 0) {
      const Schedule schedule = {ScheduleKind::kLinear, options_.adam.lr, 0,
                                 options_.lr_decay_env_steps};
      settings.Set(kLr, schedule.At(env_step));
    }
    if (options_.entropy_decay_env_steps > 0) {
      const Schedule schedule = {ScheduleKind::kLinear, options_.update.loss_options.entropy_coef,
                                 options_.final_entropy_weight, options_.entropy_decay_env_steps};
      settings.Set(kEntropyWeight, schedule.At(env_step));
    }
    return settings;
  }

 private:
  const ActorCriticPolicyOptions& options_;
};

class ActorCriticPolicy::Learn : public LearnMode {
 public:
  Learn(const ActorCriticPolicyOptions& options, ActorCritic* actor_critic, GroupAdam adam)
      : options_(options),
        update_(options.update),
        loss_options_(options.update.loss_options),
        networks_(*actor_critic),
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
  // Field kTaken + i of a minibatch stands behind the networks' inputs.
  enum Column { kTaken, kLogProb, kValue, kAdv, kReturn, kMask };
  int field(Column column) const { return networks_.inputs()->size() + column; }

  // What is read of a batch: the networks' inputs first, so that the view is their input.
  SpecPtr MakeColumns() const {
    const absl::Span<const FieldSpec> inputs = networks_.inputs()->fields();
    std::vector<FieldSpec> fields(inputs.begin(), inputs.end());
    fields.push_back(networks_.distribution().taken_field());
    for (const char* const name : {kColumnLogProb, kColumnValue, kColumnAdvantage, kColumnReturn}) {
      fields.push_back(FloatColumn(name));
    }
    if (networks_.mask_field().has_value()) {
      fields.push_back(networks_.observation()->field(*networks_.mask_field()));
    }
    return *MakeSpec(std::move(fields));
  }

  // What a call learns from, and how.
  absl::StatusOr<ColumnsView> Prepare(const Batch& data, const NamedValues& settings) {
    DING_ASSIGN_OR_RETURN(const ColumnsView rows, columns_.Read(data));
    if (const std::optional<double> lr = settings.Get(kLr)) {
      DING_RETURN_IF_ERROR(adam_.set_lr(*lr));
    }
    DING_RETURN_IF_ERROR(SetEntropyWeight(settings));
    MeasureData(rows);
    return rows;
  }

  absl::Status Update(const Batch& data, const NamedValues& settings,
                      std::vector<LearnStep>* steps) {
    const absl::StatusOr<ColumnsView> prepared = Prepare(data, settings);
    if (!prepared.ok()) {
      float no_kl = 0;  // The other learners have come with their first minibatch.
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

  // What the settings say or, if they do not, the options: for this call only.
  absl::Status SetEntropyWeight(const NamedValues& settings) {
    const double weight = settings.GetOr(kEntropyWeight, update_.loss_options.entropy_coef);
    if (!(weight >= 0 && std::isfinite(weight))) {
      return absl::InvalidArgumentError(
          absl::StrCat(kEntropyWeight, " is ", weight, ", must be finite and at least 0"));
    }
    loss_options_.entropy_coef = weight;
    return absl::OkStatus();
  }

  // Rows [begin, begin + count) of the order.
  absl::StatusOr<ColumnsView> Minibatch(const ColumnsView& rows, int64_t begin, int64_t count) {
    if (count == rows.rows()) return rows;
    DING_ASSIGN_OR_RETURN(const MutableColumnsView minibatch, minibatch_.Rows(count));
    GatherRows(
        rows,
        absl::MakeConstSpan(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
        minibatch, 0);
    return ColumnsView(minibatch);
  }

  // One step of the optimizer on a minibatch; false, and no step, if the policy has moved too far.
  absl::StatusOr<bool> StepOn(const ColumnsView& rows, int64_t begin, int64_t count,
                              LearnStep* step) {
    ActorCriticLossResult result;
    const absl::Status computed = ComputeGradients(rows, begin, count, &result);
    auto mean_kl = static_cast<float>(result.approx_kl);
    DING_RETURN_IF_ERROR(
        adam_.Average(options_.reducer, count, computed, absl::MakeSpan(&mean_kl, 1)));
    const double kl = options_.reducer == nullptr ? result.approx_kl : mean_kl;
    // The first minibatch of a call is always learned from: the policy cannot have moved yet.
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

  // Of the data of a call: what every step reports.
  void MeasureData(const ColumnsView& rows) {
    const absl::Span<const float> adv = rows.column<float>(field(kAdv));
    const double of_returns = Variance(rows.column<float>(field(kReturn)));
    // The returns less the values are the advantages.
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
  ActorCriticLossOptions loss_options_;  // of the current call
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

ActorCriticPolicy::ActorCriticPolicy(const ActorCriticPolicyOptions& options) : options_(options) {}
ActorCriticPolicy::~ActorCriticPolicy() = default;

absl::StatusOr<std::unique_ptr<ActorCriticPolicy>> ActorCriticPolicy::Create(
    std::unique_ptr<Network> actor, std::unique_ptr<Network> critic, SpecPtr observation,
    SpecPtr action, const ActorCriticPolicyOptions& options) {
  auto policy = absl::WrapUnique(new ActorCriticPolicy(options));
  DING_ASSIGN_OR_RETURN(
      policy->actor_critic_,
      ActorCritic::Create(std::move(actor), std::move(critic), std::move(observation),
                          std::move(action), options.networks));
  const ActorCriticPolicyOptions& kept = policy->options_;
  ActorCritic* const networks = policy->actor_critic_.get();
  if (kept.modes.learn) {
    DING_ASSIGN_OR_RETURN(GroupAdam adam,
                          GroupAdam::Create(networks->Groups(), kept.adam, kept.grad_clip_norm));
    policy->learn_ = std::make_unique<Learn>(kept, networks, std::move(adam));
  }
  if (kept.modes.collect) policy->collect_ = std::make_unique<Collect>(kept, networks);
  if (kept.modes.eval) policy->eval_ = std::make_unique<GreedyEval>(kept.name, networks);
  if (kept.modes.command) policy->command_ = std::make_unique<Command>(kept);
  return policy;
}

CollectMode* ActorCriticPolicy::collect_mode() { return collect_.get(); }
LearnMode* ActorCriticPolicy::learn_mode() { return learn_.get(); }
EvalMode* ActorCriticPolicy::eval_mode() { return eval_.get(); }
CommandMode* ActorCriticPolicy::command_mode() { return command_.get(); }

}  // namespace ding
