#include "ding_worker/policy/dqn/dqn.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/draw_categories.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_mask.h"
#include "ding_worker/policy/column_binding.h"
#include "ding_worker/policy/parameter_state.h"
#include "ding_worker/policy/sampled_transition_reader.h"
#include "ding_worker/policy/scratch_columns.h"

namespace ding {
namespace {

constexpr char kEps[] = "eps";
constexpr char kLr[] = "lr";
constexpr char kEnvStep[] = "envstep";
constexpr char kTargetScope[] = "target_model";
constexpr char kOptimizerScope[] = "optimizer";
constexpr char kTrainIter[] = "train_iter";
constexpr char kRng[] = "rng";

absl::Status CheckNetwork(const Network& network, int64_t num_actions) {
  const Spec& output = *network.output_spec();
  if (output.size() == 1 && output.field(0).name == "q" &&
      output.field(0).dtype == DType::kFloat32 && output.field(0).shape == Shape{num_actions}) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dqn: the network's outputs are\n", output.DebugString(),
                   "\nexpected one field 'q' float32[", num_actions, "]"));
}

absl::StatusOr<double> RequireEps(const NamedValues& settings) {
  const std::optional<double> eps = settings.Get(kEps);
  if (!eps.has_value()) {
    return absl::InvalidArgumentError(
        "dqn, collect: setting 'eps' is missing; command_mode()->GetSettingCollect() returns it");
  }
  if (!(*eps >= 0 && *eps <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dqn, collect: setting 'eps' is ", *eps, ", expected 0..1"));
  }
  return *eps;
}

}  // namespace

absl::StatusOr<int64_t> CountActions(const Spec& action) {
  if (action.size() == 1 && action.field(0).name == "action" && action.field(0).is_discrete() &&
      action.field(0).dtype == DType::kInt64 && action.field(0).num_elements() == 1) {
    return action.field(0).num_categories;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dqn chooses among discrete actions: expected one field 'action' with one int64 "
                   "category, the action space is\n",
                   action.DebugString()));
}

// The state that the modes share.
struct DqnPolicy::Shared {
  Shared(std::unique_ptr<Network> the_network, SpecPtr the_observation, SpecPtr the_action,
         std::optional<int> the_mask_field, const DqnOptions& the_options)
      : options(the_options),
        observation(std::move(the_observation)),
        action(std::move(the_action)),
        network(std::move(the_network)),
        num_actions(action->field(0).num_categories),
        mask_field(the_mask_field),
        inputs(network->input_spec(), "", "observations"),
        acting_q(network->output_spec()) {}

  // Returns the fields of `obs` that the network reads; valid until the next call.
  ColumnsView Inputs(const ColumnsView& obs) {
    return mask_field.has_value() ? inputs.Bind(obs) : obs;
  }

  // Returns the Q values [B, A] of `obs`, after checking that `out` has B rows.
  absl::StatusOr<absl::Span<const float>> Evaluate(const ColumnsView& obs,
                                                   const MutableColumnsView& out) {
    DING_RETURN_IF_ERROR(CheckSameLayout(*action, out.spec(), "dqn's output"));
    if (out.rows() < obs.rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat("dqn's output has ", out.rows(), " rows for ", obs.rows(), " observations"));
    }
    if (obs.rows() == 0) return absl::Span<const float>();
    DING_RETURN_IF_ERROR(CheckFirstFields(*observation, obs.spec(), "dqn's observations"));
    acting_mask = ActionMaskOf(obs, mask_field);
    DING_RETURN_IF_ERROR(Annotate(CheckLegal(acting_mask, {num_actions}), "dqn"));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView q, acting_q.Rows(obs.rows()));
    DING_RETURN_IF_ERROR(network->Infer(Inputs(obs), q));
    const absl::Span<const float> values = q.column<float>(0);
    const int64_t bad = FindNonFinite(values);
    if (bad < 0) return values;
    return absl::InternalError(absl::StrCat("dqn: q value of action ", bad % num_actions,
                                            ", observation ", bad / num_actions, " is ",
                                            values[static_cast<size_t>(bad)]));
  }

  // Returns row `row` of `values` [B, A]; empty if `values` is empty.
  template <typename T>
  absl::Span<const T> OfRow(absl::Span<const T> values, int64_t row) const {
    if (values.empty()) return values;
    return values.subspan(static_cast<size_t>(row * num_actions), static_cast<size_t>(num_actions));
  }

  // Returns the greedy action of row `row` of the last Evaluate().
  int64_t Greedy(absl::Span<const float> q, int64_t row) const {
    return Argmax(OfRow(q, row), OfRow(acting_mask, row));
  }
  int64_t Random(int64_t row, Rng* rng) const {
    int64_t category = 0;
    const absl::Status status = DrawCategories(action->field(0), OfRow(acting_mask, row), rng,
                                               absl::MakeSpan(&category, 1));
    DING_CHECK(status.ok()) << status.ToString();  // Evaluate() has checked the masks.
    return category;
  }

  absl::Status LoadModel(StateReader* reader) {
    return LoadParameters(network->parameter_info(), kModelScope, reader, network->parameters());
  }

  const DqnOptions options;
  const SpecPtr observation;
  const SpecPtr action;
  const std::unique_ptr<Network> network;
  const int64_t num_actions;
  const std::optional<int> mask_field;  // index in the observation
  ColumnBinding inputs;
  ScratchColumns acting_q;
  absl::Span<const uint8_t> acting_mask;
};

class DqnPolicy::Collect : public CollectMode {
 public:
  explicit Collect(Shared* shared)
      : shared_(*shared), rng_(shared->options.seed, "policy/collect") {}

  const SpecPtr& output_spec() const override { return shared_.action; }
  CollectAttributes attributes() const override { return shared_.options.collect; }

  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& settings, const MutableColumnsView& out) override {
    DING_ASSIGN_OR_RETURN(const double eps, RequireEps(settings));
    DING_ASSIGN_OR_RETURN(const absl::Span<const float> q, shared_.Evaluate(obs, out));
    const absl::Span<int64_t> action = out.column<int64_t>(0);
    for (int64_t row = 0; row < obs.rows(); ++row) {
      const bool explore = rng_.Uniform() < eps;
      action[static_cast<size_t>(row)] =
          explore ? shared_.Random(row, &rng_) : shared_.Greedy(q, row);
    }
    return absl::OkStatus();
  }

  absl::Status LoadModel(StateReader* reader) override { return shared_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override {
    return writer->WriteRng(kRng, rng_);
  }
  absl::Status LoadState(StateReader* reader) override { return reader->ReadRng(kRng, &rng_); }

 private:
  Shared& shared_;
  Rng rng_;
};

class DqnPolicy::Eval : public EvalMode {
 public:
  explicit Eval(Shared* shared) : shared_(*shared) {}

  const SpecPtr& output_spec() const override { return shared_.action; }

  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                       const NamedValues& /*settings*/, const MutableColumnsView& out) override {
    DING_ASSIGN_OR_RETURN(const absl::Span<const float> q, shared_.Evaluate(obs, out));
    const absl::Span<int64_t> action = out.column<int64_t>(0);
    for (int64_t row = 0; row < obs.rows(); ++row) {
      action[static_cast<size_t>(row)] = shared_.Greedy(q, row);
    }
    return absl::OkStatus();
  }

  absl::Status LoadModel(StateReader* reader) override { return shared_.LoadModel(reader); }

 private:
  Shared& shared_;
};

class DqnPolicy::Command : public CommandMode {
 public:
  explicit Command(const Shared* shared) : shared_(*shared) {}

  NamedValues GetSettingCollect(const NamedValues& info) override {
    return {{kEps, shared_.options.eps.At(info.GetOr(kEnvStep, 0))}};
  }
  NamedValues GetSettingLearn(const NamedValues& info) override {
    const double decay = shared_.options.lr_decay_env_steps;
    if (decay <= 0) return {};
    const Schedule schedule = {ScheduleKind::kLinear, shared_.options.adam.lr, 0, decay};
    return {{kLr, schedule.At(info.GetOr(kEnvStep, 0))}};
  }

 private:
  const Shared& shared_;
};

class DqnPolicy::Learn : public LearnMode {
 public:
  Learn(Shared* shared, std::unique_ptr<Network> target, Adam adam)
      : shared_(*shared),
        target_(std::move(target)),
        adam_(std::move(adam)),
        reader_(shared_.observation, shared_.action),
        q_(shared_.network->output_spec()),
        d_q_(shared_.network->output_spec()),
        next_q_(shared_.network->output_spec()),
        next_target_q_(shared_.network->output_spec()) {}

  LearnAttributes attributes() const override { return shared_.options.learn; }
  std::vector<std::string> monitor_vars() const override {
    return {"cur_lr", "total_loss", "q_value", "target_q_value"};
  }
  std::string info() const override {
    return absl::StrCat(shared_.options.double_q ? "double dqn on " : "dqn on ",
                        shared_.network->info());
  }

  absl::Status Forward(const Batch& data, const NamedValues& settings,
                       std::vector<LearnStep>* steps) override {
    TdLossResult result;
    const absl::Status status = Update(data, settings, &result);
    if (!status.ok())
      return Annotate(status, absl::StrCat("dqn, train iteration ", train_iter_ + 1));
    ++train_iter_;
    UpdateTarget(shared_.options.target_update, train_iter_, shared_.network->parameters(),
                 target_->parameters());
    steps->resize(1);
    Report(result, &steps->front());
    return absl::OkStatus();
  }

  absl::Status SaveModel(StateWriter* writer) const override {
    const Network& network = *shared_.network;
    return SaveParameters(network.parameter_info(), network.parameters(), kModelScope, writer);
  }
  absl::Status LoadModel(StateReader* reader) override {
    DING_RETURN_IF_ERROR(shared_.LoadModel(reader));
    absl::c_copy(shared_.network->parameters(), target_->parameters().begin());
    return absl::OkStatus();
  }
  absl::Status SaveTrainState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(SaveParameters(
        target_->parameter_info(), std::as_const(*target_).parameters(), kTargetScope, writer));
    DING_RETURN_IF_ERROR(writer->WriteInt(kTrainIter, train_iter_));
    ScopedStateWriter scoped(writer, kOptimizerScope);
    return adam_.SaveState(&scoped);
  }
  absl::Status LoadTrainState(StateReader* reader) override {
    std::vector<float> target(target_->parameters().begin(), target_->parameters().end());
    DING_RETURN_IF_ERROR(
        LoadParameters(target_->parameter_info(), kTargetScope, reader, absl::MakeSpan(target)));
    DING_ASSIGN_OR_RETURN(const int64_t train_iter, reader->ReadInt(kTrainIter));
    if (train_iter < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("the saved '", kTrainIter, "' is ", train_iter, ", expected 0 or more"));
    }
    ScopedStateReader scoped(reader, kOptimizerScope);
    DING_RETURN_IF_ERROR(adam_.LoadState(&scoped));
    absl::c_copy(target, target_->parameters().begin());
    train_iter_ = train_iter;
    return absl::OkStatus();
  }

 private:
  // Takes one optimizer step; after an error nothing is changed.
  absl::Status Update(const Batch& data, const NamedValues& settings, TdLossResult* result) {
    const absl::Status computed = ComputeGradients(data, settings, result);
    // The learning rates of a group may differ for a moment, so the rate is averaged too.
    auto lr = static_cast<float>(adam_.lr());
    DING_RETURN_IF_ERROR(AverageGradients(shared_.options.reducer,
                                          {shared_.network->gradients(), absl::MakeSpan(&lr, 1)},
                                          data.rows(), computed));
    if (shared_.options.reducer != nullptr) DING_RETURN_IF_ERROR(adam_.set_lr(lr));
    return Step();
  }

  absl::Status ComputeGradients(const Batch& data, const NamedValues& settings,
                                TdLossResult* result) {
    DING_ASSIGN_OR_RETURN(const TransitionView batch, reader_.Read(data));
    if (const std::optional<double> lr = settings.Get(kLr)) {
      DING_RETURN_IF_ERROR(adam_.set_lr(*lr));
    }
    DING_RETURN_IF_ERROR(ComputeNextValue(batch.next_obs, batch.discount));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView q, q_.Rows(data.rows()));
    DING_RETURN_IF_ERROR(shared_.network->Forward(shared_.Inputs(batch.obs), q));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView d_q, d_q_.Rows(data.rows()));
    td_error_.resize(static_cast<size_t>(data.rows()));
    *result = ComputeTdLoss({q.column<float>(0), batch.action.column<int64_t>(0), batch.reward,
                             batch.discount, next_value_, batch.weight},
                            shared_.options.loss, absl::MakeSpan(td_error_), d_q.column<float>(0));
    if (!std::isfinite(result->loss)) return NotFinite(result->loss);
    return shared_.network->Backward(d_q);
  }

  // Writes V(next_obs) to next_value_.
  absl::Status ComputeNextValue(const ColumnsView& next_obs, absl::Span<const float> discount) {
    const absl::Span<const uint8_t> mask = ActionMaskOf(next_obs, shared_.mask_field);
    DING_RETURN_IF_ERROR(CheckCanBootstrap(mask, discount));
    const ColumnsView inputs = shared_.Inputs(next_obs);
    next_value_.resize(static_cast<size_t>(next_obs.rows()));
    DING_ASSIGN_OR_RETURN(const MutableColumnsView target_q, next_target_q_.Rows(next_obs.rows()));
    DING_RETURN_IF_ERROR(target_->Infer(inputs, target_q));
    if (!shared_.options.double_q) {
      SelectMaxValue(target_q.column<float>(0), shared_.num_actions, absl::MakeSpan(next_value_),
                     mask);
      return absl::OkStatus();
    }
    DING_ASSIGN_OR_RETURN(const MutableColumnsView online_q, next_q_.Rows(next_obs.rows()));
    DING_RETURN_IF_ERROR(shared_.network->Infer(inputs, online_q));
    SelectDoubleQValue(online_q.column<float>(0), target_q.column<float>(0), shared_.num_actions,
                       absl::MakeSpan(next_value_), mask);
    return absl::OkStatus();
  }

  // Checks that next_obs has a legal action where the episode continues.
  absl::Status CheckCanBootstrap(absl::Span<const uint8_t> next_mask,
                                 absl::Span<const float> discount) const {
    for (int64_t row = 0; !next_mask.empty() && row < static_cast<int64_t>(discount.size());
         ++row) {
      if (discount[static_cast<size_t>(row)] == 0) continue;
      if (CountLegal(shared_.OfRow(next_mask, row)) > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("training batch: the action mask of next_obs, row ", row,
                       ", has no legal action, but the episode continues"));
    }
    return absl::OkStatus();
  }

  absl::Status NotFinite(double loss) const {
    const int64_t row = FindNonFinite(td_error_);
    return absl::InternalError(absl::StrCat(
        "the loss is ", loss,
        row < 0 ? std::string()
                : absl::StrCat("; the first non-finite td error is that of row ", row)));
  }

  absl::Status Step() {
    absl::Status status;
    if (shared_.options.grad_clip_norm > 0) {
      status =
          ClipGradientNorm(shared_.network->gradients(), shared_.options.grad_clip_norm).status();
    }
    if (status.ok()) {
      status = adam_.Step(shared_.network->gradients(), shared_.network->parameters());
    }
    // The only possible error is a non-finite gradient, which is not an argument of the caller.
    return status.ok() ? status : absl::InternalError(status.message());
  }

  void Report(const TdLossResult& result, LearnStep* step) const {
    step->Clear();
    step->scalars.Set("cur_lr", adam_.lr());
    step->scalars.Set("total_loss", result.loss);
    step->scalars.Set("q_value", result.mean_q);
    step->scalars.Set("target_q_value", result.mean_next_value);
    if (!shared_.options.learn.priority) return;
    for (const float td_error : td_error_) step->priority.push_back(std::abs(td_error));
  }

  Shared& shared_;
  const std::unique_ptr<Network> target_;
  Adam adam_;
  int64_t train_iter_ = 0;

  // Working space, kept between iterations.
  SampledTransitionReader reader_;
  ScratchColumns q_;
  ScratchColumns d_q_;
  ScratchColumns next_q_;
  ScratchColumns next_target_q_;
  std::vector<float> next_value_;
  std::vector<float> td_error_;
};

DqnPolicy::DqnPolicy() = default;
DqnPolicy::~DqnPolicy() = default;

absl::StatusOr<std::unique_ptr<DqnPolicy>> DqnPolicy::Create(std::unique_ptr<Network> network,
                                                             SpecPtr action,
                                                             const DqnOptions& options,
                                                             SpecPtr observation) {
  if (observation == nullptr) observation = network->input_spec();
  DING_ASSIGN_OR_RETURN(const int64_t num_actions, CountActions(*action));
  DING_ASSIGN_OR_RETURN(const std::optional<int> mask_field, FindActionMask(*observation, *action));
  DING_RETURN_IF_ERROR(CheckSameLayout(*WithoutActionMask(observation), *network->input_spec(),
                                       "dqn: the network's inputs"));
  DING_RETURN_IF_ERROR(CheckNetwork(*network, num_actions));
  DING_RETURN_IF_ERROR(Validate(options.target_update));
  auto policy = absl::WrapUnique(new DqnPolicy);
  policy->shared_ = std::make_unique<Shared>(std::move(network), std::move(observation),
                                             std::move(action), mask_field, options);
  Shared* const shared = policy->shared_.get();
  DING_RETURN_IF_ERROR(shared->inputs.Resolve(*shared->observation));
  if (options.modes.learn) {
    DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> target, shared->network->Clone());
    DING_ASSIGN_OR_RETURN(
        Adam adam,
        Adam::Create(options.adam, static_cast<int64_t>(shared->network->parameters().size())));
    policy->learn_ = std::make_unique<Learn>(shared, std::move(target), std::move(adam));
  }
  if (options.modes.collect) policy->collect_ = std::make_unique<Collect>(shared);
  if (options.modes.eval) policy->eval_ = std::make_unique<Eval>(shared);
  if (options.modes.command) policy->command_ = std::make_unique<Command>(shared);
  return policy;
}

CollectMode* DqnPolicy::collect_mode() { return collect_.get(); }
LearnMode* DqnPolicy::learn_mode() { return learn_.get(); }
EvalMode* DqnPolicy::eval_mode() { return eval_.get(); }
CommandMode* DqnPolicy::command_mode() { return command_.get(); }
Network& DqnPolicy::network() { return *shared_->network; }

}  // namespace ding
