#include "ding_worker/policy/continuous/continuous_learn_mode.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread_team.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/parameter_state.h"
#include "ding_worker/policy/scheduled_settings.h"
#include "ding_worker/policy/target_update.h"

namespace ding {
namespace {

constexpr char kCriticScope[] = "critic";
constexpr char kTargetScope[] = "target_critic";
constexpr char kCriticOptimizerScope[] = "critic_optimizer";
constexpr char kActorOptimizerScope[] = "actor_optimizer";
constexpr char kTrainIter[] = "train_iter";
constexpr char kNoiseSeed[] = "noise_seed";
// Train iterations between two measurements of the gradient, which take longer than the other ones.
constexpr int64_t kMeasurePeriod = 10;

// The passes of an iteration that have masks of dropout of their own.
enum DropoutUse : uint32_t { kBootstrap, kTaken, kActor };

absl::Status SaveNetwork(const Network& network, absl::string_view scope, StateWriter* writer) {
  return SaveParameters(network.parameter_info(), network.parameters(), scope, writer);
}

// Reads the parameters of a network like `network` into `values`.
absl::Status ReadNetwork(const Network& network, absl::string_view scope, StateReader* reader,
                         std::vector<float>* values) {
  values->resize(network.parameters().size());
  return LoadParameters(network.parameter_info(), scope, reader, absl::MakeSpan(*values));
}

int64_t SizeOf(const Network& network) { return static_cast<int64_t>(network.parameters().size()); }

absl::Status CheckFrequency(int64_t value, absl::string_view name) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", expected at least 1 training iteration"));
}

absl::StatusOr<std::unique_ptr<ThreadTeam>> MakeTeam(int threads) {
  if (threads < 1 || threads > kMaxLearnThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("learn_threads is ", threads, ", expected 1..", kMaxLearnThreads));
  }
  if (threads == 1) return nullptr;
  return ThreadTeam::Create(threads, "learning");
}

}  // namespace

absl::StatusOr<ContinuousLearnMode::Parts> ContinuousLearnMode::MakeParts(
    const ContinuousActor& actor, std::unique_ptr<CriticEnsemble> critics,
    const ContinuousOptions& options) {
  DING_RETURN_IF_ERROR(Validate(TargetUpdate{0, options.target_update_theta}));
  DING_RETURN_IF_ERROR(CheckFrequency(options.actor_update_freq, "actor_update_freq"));
  DING_RETURN_IF_ERROR(CheckFrequency(options.target_delay, "target_delay"));
  if (critics == nullptr) return absl::InvalidArgumentError("the learn mode needs critics");
  DING_ASSIGN_OR_RETURN(const SpecPtr inputs,
                        CriticEnsemble::InputSpec(*actor.observation(), actor.action()->field(0)));
  DING_RETURN_IF_ERROR(CheckSameLayout(*inputs, *critics->network().input_spec(),
                                       absl::StrCat(actor.algorithm(), ": the critics' inputs")));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ThreadTeam> team, MakeTeam(options.learn_threads));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<CriticEnsemble> targets, critics->Clone());
  DING_ASSIGN_OR_RETURN(Adam critic_adam,
                        Adam::Create(options.critic_adam, SizeOf(critics->network())));
  DING_ASSIGN_OR_RETURN(Adam actor_adam, Adam::Create(options.actor_adam, SizeOf(actor.network())));
  return Parts{std::move(team), std::move(critics), std::move(targets), std::move(critic_adam),
               std::move(actor_adam)};
}

ContinuousLearnMode::ContinuousLearnMode(ContinuousActor* actor, const ContinuousOptions& options,
                                         Parts parts)
    : actor_(*actor),
      options_(options),
      team_(std::move(parts.team)),
      critics_(std::move(parts.critics)),
      targets_(std::move(parts.targets)),
      critic_adam_(std::move(parts.critic_adam)),
      actor_adam_(std::move(parts.actor_adam)),
      reader_(actor_.observation(), actor_.action()),
      obs_(actor_.observation()),
      next_obs_(actor_.observation()),
      row_noise_(options.seed) {
  critics_->set_thread_team(team_.get());
  targets_->set_thread_team(team_.get());
  actor_.network().set_thread_team(team_.get());
}

std::vector<std::string> ContinuousLearnMode::monitor_vars() const {
  // Not grad_norm, which not every iteration reports, nor actor_loss where the actor learns less often.
  std::vector<std::string> names = {"cur_lr", "critic_loss", "q_value", "target_q_value",
                                    "td_error"};
  if (options_.actor_update_freq == 1) names.insert(names.begin() + 2, "actor_loss");
  return names;
}

std::string ContinuousLearnMode::info() const {
  return absl::StrCat(actor_.algorithm(), " on ", actor_.network().info(), "; ", critics_->info());
}

absl::Status ContinuousLearnMode::Forward(const Batch& data, const NamedValues& settings,
                                          std::vector<LearnStep>* steps) {
  Results results;
  const absl::Status status = Update(data, settings, &results);
  if (!status.ok()) {
    return Annotate(status,
                    absl::StrCat(actor_.algorithm(), ", train iteration ", train_iter_ + 1));
  }
  ++train_iter_;
  if (train_iter_ % options_.target_delay == 0) UpdateTargets();
  steps->resize(1);
  Report(results, &steps->front());
  return absl::OkStatus();
}

// Takes one step of all that learns; after an error nothing is changed.
absl::Status ContinuousLearnMode::Update(const Batch& data, const NamedValues& settings,
                                         Results* results) {
  results->with_actor = (train_iter_ + 1) % options_.actor_update_freq == 0;
  absl::Status computed = ReadSettings(settings);
  if (computed.ok()) computed = ComputeGradients(data, results);
  gradients_.clear();
  gradients_.push_back(critics_->network().gradients());
  if (results->with_actor) {
    gradients_.push_back(actor_.network().gradients());
    AppendMoreGradients(&gradients_);
  }
  const bool averages_rates = options_.reducer != nullptr && options_.schedules.changes();
  if (averages_rates) gradients_.push_back(rates_.Read(Optimizers()));
  DING_RETURN_IF_ERROR(AverageGradients(options_.reducer, gradients_, data.rows(), computed));
  if (averages_rates) {
    gradients_.pop_back();
    DING_RETURN_IF_ERROR(rates_.Apply(Optimizers()));
  }
  DING_RETURN_IF_ERROR(CheckGradients(results->with_actor));
  return Step(results);
}

absl::Status ContinuousLearnMode::ReadSettings(const NamedValues& settings) {
  if (settings.empty()) return absl::OkStatus();
  if (const std::optional<double> rate = settings.Get(kCriticRate)) {
    DING_RETURN_IF_ERROR(Annotate(critic_adam_.set_lr(*rate), kCriticRate));
  }
  if (const std::optional<double> rate = settings.Get(kActorRate)) {
    DING_RETURN_IF_ERROR(Annotate(actor_adam_.set_lr(*rate), kActorRate));
  }
  return ReadMoreSettings(settings);
}

absl::Status ContinuousLearnMode::ComputeGradients(const Batch& data, Results* results) {
  const absl::StatusOr<TransitionView> batch = ComputeCriticGradients(data, &results->critics);
  if (!results->with_actor) return batch.status();
  if (batch.ok()) DrawDropout(kActor, data.rows(), critics_.get());
  DING_RETURN_IF_ERROR(AverageActorMeans(batch, data.rows()));
  DING_ASSIGN_OR_RETURN(results->actor_loss, ComputeActorGradients(*batch, actor_noise_));
  if (std::isfinite(results->actor_loss)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the actor's loss is ", results->actor_loss));
}

absl::Status ContinuousLearnMode::AverageActorMeans(const absl::StatusOr<TransitionView>& batch,
                                                    int64_t rows) {
  const absl::Status status = batch.ok() ? ComputeActorMeans(*batch) : batch.status();
  const absl::Span<float> means = actor_means();
  if (means.empty()) return status;
  return AverageGradients(options_.reducer, absl::MakeConstSpan(&means, 1), rows, status);
}

absl::StatusOr<TransitionView> ContinuousLearnMode::ComputeCriticGradients(
    const Batch& data, CriticLossResult* result) {
  DING_ASSIGN_OR_RETURN(TransitionView batch, reader_.Read(data));
  DING_ASSIGN_OR_RETURN(batch.obs, actor_.Inputs(batch.obs, &obs_));
  DING_ASSIGN_OR_RETURN(batch.next_obs, actor_.Inputs(batch.next_obs, &next_obs_));
  const auto rows = static_cast<size_t>(data.rows());
  noise_.resize(rows * actor_.scale().width());
  actor_noise_.resize(noise_.size());
  row_noise_.Draw(batch, train_iter_, absl::MakeSpan(noise_), absl::MakeSpan(actor_noise_));
  next_value_.resize(rows);
  DrawDropout(kBootstrap, data.rows(), targets_.get());
  DING_RETURN_IF_ERROR(ComputeNextValue(batch, noise_, absl::MakeSpan(next_value_)));
  DrawDropout(kTaken, data.rows(), critics_.get());
  DING_RETURN_IF_ERROR(BackpropagateCriticLoss(batch, result));
  return batch;
}

void ContinuousLearnMode::DrawDropout(uint32_t use, int64_t rows, CriticEnsemble* critics) {
  if (!critics->has_dropout()) return;
  dropout_keys_.resize(static_cast<size_t>(rows));
  row_noise_.DrawKeys(train_iter_, use, absl::MakeSpan(dropout_keys_));
  critics->set_dropout_keys(dropout_keys_);
}

absl::Status ContinuousLearnMode::BackpropagateCriticLoss(const TransitionView& batch,
                                                          CriticLossResult* result) {
  const absl::Span<const float> taken = batch.action.column<float>(0);
  action_.resize(taken.size());
  actor_.scale().ToUnit(taken, absl::MakeSpan(action_));
  DING_RETURN_IF_ERROR(critics_->Forward(batch.obs, action_));
  td_error_.resize(next_value_.size());
  *result =
      ComputeCriticLoss({critics_->q(), batch.reward, batch.discount, next_value_, batch.weight},
                        absl::MakeSpan(td_error_), critics_->d_q());
  if (std::isfinite(result->loss)) return critics_->Backward();
  const int64_t row = FindNonFinite(td_error_);
  return absl::InternalError(
      absl::StrCat("the critics' loss is ", result->loss,
                   row < 0 ? std::string()
                           : absl::StrCat("; the first non-finite td error is that of row ", row)));
}

absl::Status ContinuousLearnMode::CheckGradients(bool with_actor) {
  constexpr const char* kNames[] = {"critics", "actor", "other parameters"};
  const size_t count = with_actor ? gradients_.size() : 1;
  for (size_t i = 0; i < count; ++i) {
    if (AllFinite(gradients_[i])) continue;
    const int64_t bad = FindNonFinite(gradients_[i]);
    return absl::InternalError(absl::StrCat("gradient ", bad, " of ", gradients_[i].size(),
                                            " of the ", kNames[std::min<size_t>(i, 2)], " is ",
                                            gradients_[i][static_cast<size_t>(bad)]));
  }
  return absl::OkStatus();
}

// The gradients are finite, so that no step can fail.
absl::Status ContinuousLearnMode::Step(Results* results) {
  if ((train_iter_ + 1) % kMeasurePeriod == 0) {
    results->grad_norm = GradientNorm(absl::MakeConstSpan(gradients_.data(), 1));
  }
  const size_t networks = results->with_actor ? 2 : 1;
  for (size_t i = 0; i < networks && options_.grad_clip_norm > 0; ++i) {
    DING_RETURN_IF_ERROR(ClipGradientNorm(gradients_[i], options_.grad_clip_norm).status());
  }
  DING_RETURN_IF_ERROR(critic_adam_.Step(gradients_[0], critics_->network().parameters()));
  if (!results->with_actor) return absl::OkStatus();
  DING_RETURN_IF_ERROR(actor_adam_.Step(gradients_[1], actor_.network().parameters()));
  StepMore();
  return absl::OkStatus();
}

void ContinuousLearnMode::UpdateTargets() {
  UpdateTarget(TargetUpdate{0, options_.target_update_theta}, train_iter_,
               critics_->network().parameters(), targets_->network().parameters());
  UpdateMoreTargets();
}

void ContinuousLearnMode::Report(const Results& results, LearnStep* step) const {
  step->scalars.Clear();
  step->priority.clear();
  step->scalars.Set("cur_lr", critic_adam_.lr());
  step->scalars.Set("critic_loss", results.critics.loss);
  if (results.with_actor) step->scalars.Set("actor_loss", results.actor_loss);
  step->scalars.Set("q_value", results.critics.mean_q);
  step->scalars.Set("target_q_value", results.critics.mean_target);
  double absolute = 0;
  for (const float td : td_error_) absolute += td;
  step->scalars.Set("td_error", absolute / static_cast<double>(td_error_.size()));
  if (results.grad_norm.has_value()) step->scalars.Set("grad_norm", *results.grad_norm);
  ReportMore(results.with_actor, &step->scalars);
  if (options_.learn.priority) step->priority.assign(td_error_.begin(), td_error_.end());
}

absl::Status ContinuousLearnMode::LoadModel(StateReader* reader) {
  DING_RETURN_IF_ERROR(actor_.LoadModel(reader));
  ResetMoreTargets();
  return absl::OkStatus();
}

absl::Status ContinuousLearnMode::SetData(const Batch& data) {
  actor_.SetStatistics(data.view());
  return absl::OkStatus();
}

absl::Status ContinuousLearnMode::SaveTrainState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(SaveNetwork(critics_->network(), kCriticScope, writer));
  DING_RETURN_IF_ERROR(SaveNetwork(targets_->network(), kTargetScope, writer));
  DING_RETURN_IF_ERROR(SaveAdam(critic_adam_, kCriticOptimizerScope, writer));
  DING_RETURN_IF_ERROR(SaveAdam(actor_adam_, kActorOptimizerScope, writer));
  DING_RETURN_IF_ERROR(writer->WriteInt(kTrainIter, train_iter_));
  DING_RETURN_IF_ERROR(writer->WriteInt(kNoiseSeed, static_cast<int64_t>(noise_seed())));
  return SaveMore(writer);
}

absl::Status ContinuousLearnMode::LoadTrainState(StateReader* reader) {
  Network& critics = critics_->network();
  std::vector<float> critic_parameters;
  DING_RETURN_IF_ERROR(ReadNetwork(critics, kCriticScope, reader, &critic_parameters));
  std::vector<float> target_parameters;
  DING_RETURN_IF_ERROR(ReadNetwork(critics, kTargetScope, reader, &target_parameters));
  DING_ASSIGN_OR_RETURN(const Adam critic_adam, ReadAdam(options_.critic_adam, SizeOf(critics),
                                                         kCriticOptimizerScope, reader));
  DING_ASSIGN_OR_RETURN(
      const Adam actor_adam,
      ReadAdam(options_.actor_adam, SizeOf(actor_.network()), kActorOptimizerScope, reader));
  DING_ASSIGN_OR_RETURN(const int64_t train_iter, reader->ReadCount(kTrainIter));
  DING_ASSIGN_OR_RETURN(const int64_t noise_seed, reader->ReadInt(kNoiseSeed));
  DING_ASSIGN_OR_RETURN(const std::function<void()> apply_more, LoadMore(reader));
  absl::c_copy(critic_parameters, critics.parameters().begin());
  absl::c_copy(target_parameters, targets_->network().parameters().begin());
  critic_adam_.CopyFrom(critic_adam);
  actor_adam_.CopyFrom(actor_adam);
  train_iter_ = train_iter;
  row_noise_ = RowNoise(static_cast<uint64_t>(noise_seed));
  apply_more();
  return absl::OkStatus();
}

}  // namespace ding
