#include "ding_worker/policy/q_learning/q_policy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"
#include "ding_worker/policy/device/device_network.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/schedule.h"

namespace ding {
namespace {

constexpr char kRng[] = "rng";
constexpr char kRecurrentScope[] = "recurrent";

absl::StatusOr<double> RequireEps(const NamedValues& settings, absl::string_view algorithm) {
  const std::optional<double> eps = settings.Get(kEpsSetting);
  if (!eps.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(algorithm,
                     ", collect: setting 'eps' is missing; command_mode()->GetSettingCollect() "
                     "returns it"));
  }
  if (!(*eps >= 0 && *eps <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(algorithm, ", collect: setting 'eps' is ", *eps, ", expected 0..1"));
  }
  return *eps;
}

SpecPtr OutputSpec(const SpecPtr& action, const RecurrentNetwork* recurrent, bool stores_state) {
  if (recurrent == nullptr || !stores_state) return action;
  return *MakeSpec({action->field(0), Box(kColumnRnnState, {recurrent->state_size()})});
}

LearnDescription Describe(const QNetwork& network, const DqnOptions& options) {
  LearnDescription description;
  description.algorithm = network.algorithm();
  description.info = absl::StrCat(options.double_q ? "double " : "", network.algorithm(), " on ",
                                  network.network().info());
  description.attributes = options.learn;
  description.reducer = options.reducer;
  // Not grad_norm, which not every iteration reports.
  description.monitor_vars = {"cur_lr", "total_loss", "q_value", "target_q_value", "td_error"};
  description.norm_period = 10;
  return description;
}

}  // namespace

QActor::QActor(QNetwork* network, bool stores_state)
    : network_(*network),
      recurrent_(AsRecurrent(&network->network())),
      output_spec_(OutputSpec(network->action(), recurrent_, stores_state)),
      output_name_(absl::StrCat(network->algorithm(), "'s output")),
      observation_name_(absl::StrCat(network->algorithm(), "'s observations")),
      scratch_(network->network().output_spec()) {
  if (recurrent_ != nullptr) states_.emplace(recurrent_->state_size());
}

absl::Status QActor::Evaluate(const ColumnsView& obs, absl::Span<const int> env_ids,
                              const MutableColumnsView& out) {
  DING_RETURN_IF_ERROR(CheckSameLayout(*output_spec_, out.spec(), output_name_));
  if (out.rows() < obs.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat(output_name_, " has ", out.rows(), " rows for ", obs.rows(), " observations"));
  }
  if (obs.rows() == 0) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckFirstFields(*network_.observation(), obs.spec(), observation_name_));
  mask_ = network_.MaskOf(obs);
  DING_RETURN_IF_ERROR(Annotate(CheckLegal(mask_, {network_.num_actions()}), network_.algorithm()));
  DING_ASSIGN_OR_RETURN(const MutableColumnsView outputs, scratch_.Rows(obs.rows()));
  return Infer(obs, env_ids, out, outputs);
}

absl::Status QActor::Infer(const ColumnsView& obs, absl::Span<const int> env_ids,
                           const MutableColumnsView& out, const MutableColumnsView& outputs) {
  const ColumnsView inputs = network_.Inputs(obs);
  if (recurrent_ == nullptr) {
    DING_RETURN_IF_ERROR(network_.network().Infer(inputs, outputs));
    return SetValues(outputs.column<float>(0));
  }
  DING_RETURN_IF_ERROR(
      Annotate(RecurrentStates::CheckIds(env_ids, obs.rows()), network_.algorithm()));
  const absl::Span<float> states = states_->Gather(env_ids);
  if (output_spec_->size() > 1) absl::c_copy(states, out.column<float>(1).begin());
  Sequences rows;
  rows.rows = inputs;
  rows.state = states;
  DING_RETURN_IF_ERROR(recurrent_->InferSequences(rows, outputs, states));
  DING_RETURN_IF_ERROR(SetValues(outputs.column<float>(0)));
  if (!AllFinite(states)) {
    return absl::InternalError(
        absl::StrCat(network_.algorithm(), ": the recurrent state after a step is not finite"));
  }
  states_->Scatter(env_ids);
  return absl::OkStatus();
}

absl::Status QActor::SetValues(absl::Span<const float> outputs) {
  q_ = network_.head().Values(outputs, &values_);
  const int64_t bad = FindNonFinite(q_);
  if (bad < 0) return absl::OkStatus();
  const int64_t num_actions = network_.num_actions();
  return absl::InternalError(absl::StrCat(network_.algorithm(), ": q value of action ",
                                          bad % num_actions, ", observation ", bad / num_actions,
                                          " is ", q_[static_cast<size_t>(bad)]));
}

int64_t QActor::Greedy(int64_t row) const {
  return Argmax(network_.OfRow(q_, row), network_.OfRow(mask_, row));
}

int64_t QActor::Random(int64_t row, Rng* rng) const {
  int64_t category = 0;
  const absl::Status status = DrawCategories(
      network_.action()->field(0), network_.OfRow(mask_, row), rng, absl::MakeSpan(&category, 1));
  DING_CHECK(status.ok()) << status.ToString();  // Evaluate() has checked the masks.
  return category;
}

void QActor::Reset(absl::Span<const int> env_ids) {
  if (states_.has_value()) states_->Reset(env_ids);
}

absl::Status QActor::SaveState(StateWriter* writer) const {
  if (!states_.has_value()) return absl::OkStatus();
  ScopedStateWriter scoped(writer, kRecurrentScope);
  return states_->SaveState(&scoped);
}

absl::Status QActor::LoadState(StateReader* reader) {
  if (!states_.has_value()) return absl::OkStatus();
  ScopedStateReader scoped(reader, kRecurrentScope);
  return states_->LoadState(&scoped);
}

QCollectMode::QCollectMode(QNetwork* network, const DqnOptions& options)
    : network_(*network),
      random_(AsRandom(&network->network())),
      actor_(network, /*stores_state=*/true),
      attributes_(options.collect),
      rng_(options.seed, "policy/collect") {}

absl::Status QCollectMode::Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                                   const NamedValues& settings, const MutableColumnsView& out) {
  DING_ASSIGN_OR_RETURN(const double eps, RequireEps(settings, network_.algorithm()));
  Rng rng = rng_;
  if (random_ != nullptr) random_->Draw(&rng);
  DING_RETURN_IF_ERROR(actor_.Evaluate(obs, env_ids, out));
  const absl::Span<int64_t> action = out.column<int64_t>(0);
  for (int64_t row = 0; row < obs.rows(); ++row) {
    const bool explore = rng.Uniform() < eps;
    action[static_cast<size_t>(row)] = explore ? actor_.Random(row, &rng) : actor_.Greedy(row);
  }
  rng_ = rng;
  return absl::OkStatus();
}

absl::Status QCollectMode::Reset(absl::Span<const int> env_ids) {
  actor_.Reset(env_ids);
  return absl::OkStatus();
}

absl::Status QCollectMode::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteRng(kRng, rng_));
  return actor_.SaveState(writer);
}

absl::Status QCollectMode::LoadState(StateReader* reader) {
  Rng rng = rng_;
  DING_RETURN_IF_ERROR(reader->ReadRng(kRng, &rng));
  DING_RETURN_IF_ERROR(actor_.LoadState(reader));
  rng_ = rng;
  return absl::OkStatus();
}

QEvalMode::QEvalMode(QNetwork* network)
    : network_(*network), random_(AsRandom(&network->network())), actor_(network, false) {}

absl::Status QEvalMode::Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                                const NamedValues& /*settings*/, const MutableColumnsView& out) {
  if (random_ != nullptr) random_->UseMeans();
  DING_RETURN_IF_ERROR(actor_.Evaluate(obs, env_ids, out));
  const absl::Span<int64_t> action = out.column<int64_t>(0);
  for (int64_t row = 0; row < obs.rows(); ++row) {
    action[static_cast<size_t>(row)] = actor_.Greedy(row);
  }
  return absl::OkStatus();
}

absl::Status QEvalMode::Reset(absl::Span<const int> env_ids) {
  actor_.Reset(env_ids);
  return absl::OkStatus();
}

NamedValues QCommandMode::GetSettingCollect(const NamedValues& info) {
  NamedValues settings = {{kEpsSetting, options_.eps.At(info.GetOr(kEnvStepProgress, 0))}};
  options_.schedules.AddCollectSettings(info, &settings);
  return settings;
}

NamedValues QCommandMode::GetSettingLearn(const NamedValues& info) {
  NamedValues settings;
  const double decay = options_.lr_decay_env_steps;
  if (decay > 0) {
    const Schedule schedule = {ScheduleKind::kLinear, options_.adam.lr, 0, decay};
    settings.Set(kLearningRateSetting, schedule.At(info.GetOr(kEnvStepProgress, 0)));
  }
  options_.schedules.AddLearnSettings(info, &settings);
  return settings;
}

absl::StatusOr<QLearnMode::Parts> QLearnMode::MakeParts(const QNetwork& network,
                                                        const DqnOptions& options) {
  DING_RETURN_IF_ERROR(Validate(options.target_update));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> target, network.network().Clone());
  DING_ASSIGN_OR_RETURN(GroupAdam adam,
                        GroupAdam::Create({ParametersOf("optimizer", &network.network())},
                                          options.adam, options.grad_clip_norm));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ThreadTeam> team, MakeLearnTeam(options.learn_threads));
  if (team != nullptr && !target->set_thread_team(team.get())) {
    return absl::InvalidArgumentError(absl::StrCat("learn_threads is ", options.learn_threads,
                                                   ", but the network (", target->info(),
                                                   ") learns on one thread: expected 1"));
  }
  network.network().set_thread_team(team.get());
  return Parts{std::move(team), std::move(target), std::move(adam)};
}

QLearnMode::QLearnMode(QNetwork* network, const DqnOptions& options, Parts parts)
    : GradientLearnMode(Describe(*network, options), std::move(parts.adam)),
      network_(*network),
      options_(options),
      team_(std::move(parts.team)),
      target_(std::move(parts.target)) {
  state()->AddNetwork("target_model", target_.get());
  AddTrainIter();
  adam().AddTo(state());
}

absl::StatusOr<int64_t> QLearnMode::ComputeGradients(const Batch& data,
                                                     const NamedValues& /*settings*/,
                                                     LearnStep* step) {
  DING_ASSIGN_OR_RETURN(const QLoss loss, ComputeLoss(data));
  if (!std::isfinite(loss.loss)) return LossError("the loss", loss.loss, loss.td_error);
  Report(loss, step);
  return loss.rows;
}

void QLearnMode::AfterStep(LearnStep* /*step*/) {
  UpdateTarget(options_.target_update, train_iter(), &network_.network(), target_.get());
}

void QLearnMode::Report(const QLoss& loss, LearnStep* step) const {
  step->scalars.Set("total_loss", loss.loss);
  step->scalars.Set("q_value", loss.mean_q);
  step->scalars.Set("target_q_value", loss.mean_next_value);
  // Rows that are not learned from (padding and burn-in of sequences) have the error 0.
  ReportTdErrors(loss.td_error, loss.rows, step);
  for (const NamedValues::Entry& scalar : loss.scalars) {
    step->scalars.Set(scalar.first, scalar.second);
  }
  if (options_.learn.priority && !loss.priority.empty()) {
    step->priority.assign(loss.priority.begin(), loss.priority.end());
  }
  step->histograms.resize(1);  // not cleared, so that its memory is reused
  step->histograms[0].first = "td_error";
  std::vector<float>& histogram = step->histograms[0].second;
  histogram.assign(loss.td_error.begin(), loss.td_error.end());
  if (loss.rows < static_cast<int64_t>(histogram.size())) {
    histogram.erase(std::remove(histogram.begin(), histogram.end(), 0.0f), histogram.end());
  }
}

void QLearnMode::SelectValue(absl::Span<const float> online_q, absl::Span<const float> target_q,
                             absl::Span<const uint8_t> mask, absl::Span<float> value) const {
  SelectDoubleQValue(options_.double_q ? online_q : target_q, target_q, network_.num_actions(),
                     value, mask);
}

absl::Status QLearnMode::SaveModel(StateWriter* writer) const {
  const Network& network = network_.network();
  return SaveParameters(network.parameter_info(), network.parameters(), kModelScope, writer);
}

absl::Status QLearnMode::LoadModel(StateReader* reader) {
  DING_RETURN_IF_ERROR(network_.LoadModel(reader));
  absl::c_copy(std::as_const(network_.network()).parameters(), target_->parameters().begin());
  return absl::OkStatus();
}

}  // namespace ding
