#include "ding_worker/policy/continuous/continuous_policy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/device/device_network.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_modes.h"

namespace ding {
namespace {

constexpr Rng::Purpose kPurpose("policy/learn");
constexpr Rng::Purpose kKeys("policy/learn/keys");
constexpr float kTwoPi = 6.2831853f;
constexpr float kUnit = 0x1.0p-24f;

uint64_t Mix(uint64_t key, uint64_t word) {
  key = (key ^ word) * 0x9E3779B97F4A7C15;
  return key ^ (key >> 32);
}

// Mixes the rows of a column into their keys.
void MixColumn(const std::byte* column, int64_t row_bytes, absl::Span<uint64_t> keys) {
  for (uint64_t& key : keys) {
    for (int64_t at = 0; at < row_bytes; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, column + at, static_cast<size_t>(std::min<int64_t>(8, row_bytes - at)));
      key = Mix(key, word);
    }
    column += row_bytes;
  }
}

void MixColumns(const ColumnsView& columns, absl::Span<uint64_t> keys) {
  for (int field = 0; field < columns.spec().size(); ++field) {
    MixColumn(columns.raw_column(field), columns.spec().row_bytes(field), keys);
  }
}

// The groups of parameters that every algorithm trains.
constexpr size_t kCriticGroup = 0;
constexpr size_t kActorGroup = 1;

// The passes of an iteration that have masks of dropout of their own.
enum DropoutUse : uint32_t { kBootstrap, kTaken, kActor };

absl::Status CheckFrequency(int64_t value, absl::string_view name) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", expected at least 1 training iteration"));
}

LearnDescription Describe(const ContinuousActor& actor, const CriticEnsemble& critics,
                          const ContinuousOptions& options) {
  LearnDescription description;
  description.algorithm = actor.algorithm();
  description.info =
      absl::StrCat(actor.algorithm(), " on ", actor.network().info(), "; ", critics.info());
  description.attributes = options.learn;
  description.reducer = options.reducer;
  // Not grad_norm, which not every iteration reports, nor actor_loss where the actor learns less
  // often.
  description.monitor_vars = {"cur_lr", "critic_loss", "q_value", "target_q_value", "td_error"};
  if (options.actor_update_freq == 1) {
    description.monitor_vars.insert(description.monitor_vars.begin() + 2, "actor_loss");
  }
  description.progress_vars = {{"loss", "critic_loss"}};
  description.averages_rates = options.schedules.changes();
  description.norm_period = 10;
  return description;
}

}  // namespace

void RowNoise::Draw(const TransitionView& batch, int64_t train_iter, absl::Span<float> first,
                    absl::Span<float> second) {
  const auto rows = static_cast<size_t>(batch.obs.rows());
  DING_CHECK(rows > 0 && first.size() == second.size() && first.size() % rows == 0)
      << first.size() << " and " << second.size() << " numbers for " << rows << " rows";
  keys_.assign(rows, seed_);
  MixColumns(batch.obs, absl::MakeSpan(keys_));
  MixColumns(batch.action, absl::MakeSpan(keys_));
  MixColumn(reinterpret_cast<const std::byte*>(batch.reward.data()), sizeof(float),
            absl::MakeSpan(keys_));
  const size_t width = first.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    Rng rng(keys_[row], kPurpose, static_cast<uint64_t>(train_iter));
    for (size_t at = row * width; at < (row + 1) * width; ++at) {
      // Box and Muller 1958, from two uniform numbers of 24 bits; the first is never 0.
      const float u = (static_cast<float>(rng.Next32() >> 8) + 0.5f) * kUnit;
      const float angle = kTwoPi * kUnit * static_cast<float>(rng.Next32() >> 8);
      const float radius = std::sqrt(-2 * std::log(u));
      first[at] = radius * std::cos(angle);
      second[at] = radius * std::sin(angle);
    }
  }
}

void RowNoise::DrawKeys(int64_t train_iter, uint32_t use, absl::Span<uint64_t> keys) const {
  DING_CHECK(keys.size() == keys_.size())
      << keys.size() << " keys for " << keys_.size() << " rows of the last draw";
  const uint64_t index = static_cast<uint64_t>(train_iter) << 32 | use;
  for (size_t row = 0; row < keys.size(); ++row) {
    keys[row] = Rng::DeriveSeed(keys_[row], kKeys, index);
  }
}

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
  DING_ASSIGN_OR_RETURN(std::unique_ptr<ThreadTeam> team, MakeLearnTeam(options.learn_threads));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<CriticEnsemble> targets, critics->Clone());
  DING_ASSIGN_OR_RETURN(GroupAdam critic_adam,
                        GroupAdam::Create({ParametersOf("critic_optimizer", &critics->network())},
                                          options.critic_adam, options.grad_clip_norm));
  DING_ASSIGN_OR_RETURN(GroupAdam actor_adam,
                        GroupAdam::Create({ParametersOf("actor_optimizer", &actor.network())},
                                          options.actor_adam, options.grad_clip_norm));
  std::vector<TrainedGroup> groups;
  groups.push_back({std::move(critic_adam), kCriticRate});
  groups.push_back({std::move(actor_adam), kActorRate, options.actor_update_freq});
  return Parts{std::move(team), std::move(critics), std::move(targets), std::move(groups)};
}

ContinuousLearnMode::ContinuousLearnMode(ContinuousActor* actor, const ContinuousOptions& options,
                                         Parts parts)
    : GradientLearnMode(Describe(*actor, *parts.critics, options), std::move(parts.groups)),
      actor_(*actor),
      options_(options),
      team_(std::move(parts.team)),
      critics_(std::move(parts.critics)),
      targets_(std::move(parts.targets)),
      reader_(actor_.observation(), actor_.action()),
      obs_(actor_.observation()),
      next_obs_(actor_.observation()),
      row_noise_(options.seed) {
  critics_->set_thread_team(team_.get());
  targets_->set_thread_team(team_.get());
  actor_.network().set_thread_team(team_.get());
  AddTarget(&critics_->network(), &targets_->network());
  state()->AddNetwork("critic", &critics_->network());
  state()->AddNetwork("target_critic", &targets_->network());
  adam(kCriticGroup).AddTo(state());
  adam(kActorGroup).AddTo(state());
  AddTrainIter();
  state()->AddSeed("noise_seed", row_noise_.mutable_seed());
}

absl::StatusOr<int64_t> ContinuousLearnMode::ComputeGradients(const Batch& data,
                                                              const NamedValues& /*settings*/,
                                                              LearnStep* step) {
  own_scalars_.Clear();
  const absl::StatusOr<TransitionView> batch = ComputeCriticGradients(data, step);
  if (!IsDue(kActorGroup)) {
    DING_RETURN_IF_ERROR(batch.status());
    return data.rows();
  }
  if (batch.ok()) DrawDropout(kActor, data.rows(), critics_.get());
  DING_RETURN_IF_ERROR(AverageActorMeans(batch, data.rows()));
  DING_ASSIGN_OR_RETURN(const double loss,
                        ComputeActorGradients(*batch, actor_noise_, &step->scalars));
  if (!std::isfinite(loss)) {
    return absl::InternalError(absl::StrCat("the actor's loss is ", loss));
  }
  step->scalars.Set("actor_loss", loss);
  return data.rows();
}

absl::Status ContinuousLearnMode::AverageActorMeans(const absl::StatusOr<TransitionView>& batch,
                                                    int64_t rows) {
  const absl::Status status = batch.ok() ? ComputeActorMeans(*batch) : batch.status();
  const absl::Span<float> means = actor_means();
  if (means.empty()) return status;
  return AverageGradients(options_.reducer, absl::MakeConstSpan(&means, 1), rows, status);
}

absl::StatusOr<TransitionView> ContinuousLearnMode::ComputeCriticGradients(const Batch& data,
                                                                           LearnStep* step) {
  DING_ASSIGN_OR_RETURN(TransitionView batch, reader_.Read(data));
  DING_ASSIGN_OR_RETURN(batch.obs, actor_.Inputs(batch.obs, &obs_));
  DING_ASSIGN_OR_RETURN(batch.next_obs, actor_.Inputs(batch.next_obs, &next_obs_));
  const auto rows = static_cast<size_t>(data.rows());
  noise_.resize(rows * actor_.scale().width());
  actor_noise_.resize(noise_.size());
  row_noise_.Draw(batch, train_iter(), absl::MakeSpan(noise_), absl::MakeSpan(actor_noise_));
  next_value_.resize(rows);
  DrawDropout(kBootstrap, data.rows(), targets_.get());
  DING_RETURN_IF_ERROR(ComputeNextValue(batch, noise_, absl::MakeSpan(next_value_)));
  DrawDropout(kTaken, data.rows(), critics_.get());
  CriticLossResult result;
  DING_RETURN_IF_ERROR(BackpropagateCriticLoss(batch, &result));
  Report(result, step);
  return batch;
}

void ContinuousLearnMode::DrawDropout(uint32_t use, int64_t rows, CriticEnsemble* critics) {
  if (!critics->has_dropout()) return;
  dropout_keys_.resize(static_cast<size_t>(rows));
  row_noise_.DrawKeys(train_iter(), use, absl::MakeSpan(dropout_keys_));
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
      options_.critic_loss({critics_->q(), batch.reward, batch.discount, next_value_, batch.weight},
                           absl::MakeSpan(td_error_), critics_->d_q());
  if (std::isfinite(result->loss) && options_.own_loss != nullptr) {
    DING_ASSIGN_OR_RETURN(result->loss, ComputeOwnCriticLoss(batch));
  }
  if (std::isfinite(result->loss)) return critics_->Backward();
  return LossError("the critics' loss", result->loss, td_error_);
}

LossInput ContinuousLearnMode::OwnLossInput(int num_critics) const {
  LossInput input;
  input.rows = static_cast<int64_t>(next_value_.size());
  input.batch = {{"action", action_, static_cast<int64_t>(actor_.scale().width())}};
  for (int k = 0; k < num_critics; ++k) {
    const auto critic = static_cast<size_t>(k);
    input.outputs.push_back({absl::StrCat("q", k), critics_->q()[critic], critics_->d_q()[critic]});
  }
  return input;
}

absl::StatusOr<double> ContinuousLearnMode::ComputeOwnCriticLoss(const TransitionView& batch) {
  LossInput input = OwnLossInput(critics_->num_critics());
  input.batch.push_back({"reward", batch.reward});
  input.batch.push_back({"discount", batch.discount});
  input.target = {{"next_value", next_value_}};
  input.weight = batch.weight;
  DING_ASSIGN_OR_RETURN(LossValue own,
                        ComputeOwnLoss(options_.own_loss.get(), input, absl::MakeSpan(td_error_)));
  own_scalars_ = std::move(own.scalars);
  return own.loss;
}

absl::StatusOr<double> ContinuousLearnMode::ComputeOwnActorLoss(int num_critics,
                                                                absl::Span<const float> action,
                                                                std::vector<LossOutput> more,
                                                                NamedValues numbers) {
  LossInput input = OwnLossInput(num_critics);
  d_own_action_.resize(action.size());
  input.outputs.push_back({"action", action, absl::MakeSpan(d_own_action_),
                           static_cast<int64_t>(actor_.scale().width())});
  input.outputs.insert(input.outputs.end(), more.begin(), more.end());
  input.numbers = std::move(numbers);
  DING_ASSIGN_OR_RETURN(const LossValue own, ComputeOwnLoss(options_.own_actor_loss.get(), input));
  for (const NamedValues::Entry& scalar : own.scalars)
    own_scalars_.Set(scalar.first, scalar.second);
  return own.loss;
}

void ContinuousLearnMode::AddOwnActionGradient(absl::Span<float> d_action) const {
  if (!has_own_actor_loss()) return;
  for (size_t i = 0; i < d_action.size(); ++i) d_action[i] += d_own_action_[i];
}

void ContinuousLearnMode::AfterStep(LearnStep* step) {
  for (const NamedValues::Entry& scalar : own_scalars_) {
    step->scalars.Set(scalar.first, scalar.second);
  }
  if (train_iter() % options_.target_delay != 0) return;
  for (const Target& target : targets_to_move_) {
    UpdateTarget(TargetUpdate{0, options_.target_update_theta}, train_iter(), target.online,
                 target.target);
  }
}

void ContinuousLearnMode::Report(const CriticLossResult& result, LearnStep* step) const {
  step->scalars.Set("critic_loss", result.loss);
  step->scalars.Set("q_value", result.mean_q);
  step->scalars.Set("target_q_value", result.mean_target);
  ReportTdErrors(td_error_, static_cast<int64_t>(td_error_.size()), step);
}

absl::Status ContinuousLearnMode::SetData(const RowParts& data) {
  return actor_.SetStatistics(data);
}

}  // namespace ding
