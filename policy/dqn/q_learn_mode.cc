#include "ding_worker/policy/dqn/q_learn_mode.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/dqn/q_acting.h"
#include "ding_worker/policy/gradient_reducer.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/parameter_state.h"
#include "ding_worker/policy/target_update.h"

namespace ding {
namespace {

constexpr char kTargetScope[] = "target_model";
constexpr char kOptimizerScope[] = "optimizer";
constexpr char kTrainIter[] = "train_iter";
// Train iterations between two measurements of the gradient, which take longer than the other ones.
constexpr int64_t kMeasurePeriod = 10;

}  // namespace

absl::StatusOr<QLearnMode::Parts> QLearnMode::MakeParts(const QNetwork& network,
                                                        const DqnOptions& options) {
  DING_RETURN_IF_ERROR(Validate(options.target_update));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> target, network.network().Clone());
  DING_ASSIGN_OR_RETURN(
      Adam adam,
      Adam::Create(options.adam, static_cast<int64_t>(network.network().parameters().size())));
  return Parts{std::move(target), std::move(adam)};
}

QLearnMode::QLearnMode(QNetwork* network, const DqnOptions& options, Parts parts)
    : network_(*network),
      options_(options),
      target_(std::move(parts.target)),
      adam_(std::move(parts.adam)) {}

std::vector<std::string> QLearnMode::monitor_vars() const {
  // Not grad_norm, which not every iteration reports.
  return {"cur_lr", "total_loss", "q_value", "target_q_value", "td_error"};
}

std::string QLearnMode::info() const {
  return absl::StrCat(options_.double_q ? "double " : "", network_.algorithm(), " on ",
                      network_.network().info());
}

absl::Status QLearnMode::Forward(const Batch& data, const NamedValues& settings,
                                 std::vector<LearnStep>* steps) {
  QLoss loss;
  std::optional<double> grad_norm;
  const absl::Status status = Update(data, settings, &loss, &grad_norm);
  if (!status.ok()) {
    return Annotate(status,
                    absl::StrCat(network_.algorithm(), ", train iteration ", train_iter_ + 1));
  }
  ++train_iter_;
  UpdateTarget(options_.target_update, train_iter_, network_.network().parameters(),
               target_->parameters());
  steps->resize(1);
  Report(loss, grad_norm, &steps->front());
  return absl::OkStatus();
}

// Takes one optimizer step; after an error nothing is changed.
absl::Status QLearnMode::Update(const Batch& data, const NamedValues& settings, QLoss* loss,
                                std::optional<double>* grad_norm) {
  absl::StatusOr<QLoss> computed = ComputeGradients(data);
  absl::Status status = computed.status();
  if (status.ok()) {
    *loss = *computed;
    status = CheckLoss(loss->loss);
  }
  if (status.ok()) status = SetLearningRate(settings);
  // The learning rates of a group may differ for a moment, so the rate is averaged too.
  auto lr = static_cast<float>(adam_.lr());
  DING_RETURN_IF_ERROR(AverageGradients(options_.reducer,
                                        {network_.network().gradients(), absl::MakeSpan(&lr, 1)},
                                        loss->rows, status));
  if (options_.reducer != nullptr) DING_RETURN_IF_ERROR(adam_.set_lr(lr));
  return Step(grad_norm);
}

absl::Status QLearnMode::SetLearningRate(const NamedValues& settings) {
  const std::optional<double> lr = settings.Get(kLearningRateSetting);
  return lr.has_value() ? adam_.set_lr(*lr) : absl::OkStatus();
}

absl::Status QLearnMode::CheckLoss(double loss) const {
  if (std::isfinite(loss)) return absl::OkStatus();
  const int64_t row = FindNonFinite(td_error());
  return absl::InternalError(
      absl::StrCat("the loss is ", loss,
                   row < 0 ? std::string()
                           : absl::StrCat("; the first non-finite td error is that of row ", row)));
}

absl::Status QLearnMode::Step(std::optional<double>* grad_norm) {
  const absl::Span<float> gradients = network_.network().gradients();
  absl::Status status;
  const bool measures = (train_iter_ + 1) % kMeasurePeriod == 0;
  if (measures) *grad_norm = GradientNorm(absl::MakeConstSpan(&gradients, 1));
  if (options_.grad_clip_norm > 0) {
    status = ClipGradientNorm(gradients, options_.grad_clip_norm).status();
  }
  if (status.ok()) status = adam_.Step(gradients, network_.network().parameters());
  // The only possible error is a non-finite gradient, which is not an argument of the caller.
  return status.ok() ? status : absl::InternalError(status.message());
}

void QLearnMode::Report(const QLoss& loss, std::optional<double> grad_norm, LearnStep* step) const {
  step->scalars.Clear();
  step->priority.clear();
  step->scalars.Set("cur_lr", adam_.lr());
  step->scalars.Set("total_loss", loss.loss);
  step->scalars.Set("q_value", loss.mean_q);
  step->scalars.Set("target_q_value", loss.mean_next_value);
  double absolute = 0;
  for (const float td : td_error()) absolute += std::abs(td);
  // Rows that are not learned from (padding and burn-in of sequences) have the error 0.
  step->scalars.Set("td_error", absolute / static_cast<double>(loss.rows));
  if (grad_norm.has_value()) step->scalars.Set("grad_norm", *grad_norm);
  step->histograms.resize(1);  // not cleared, so that its memory is reused
  step->histograms[0].first = "td_error";
  std::vector<float>& histogram = step->histograms[0].second;
  histogram.assign(td_error().begin(), td_error().end());
  if (loss.rows < static_cast<int64_t>(histogram.size())) {
    histogram.erase(std::remove(histogram.begin(), histogram.end(), 0.0f), histogram.end());
  }
  if (options_.learn.priority) AppendPriorities(&step->priority);
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
  absl::c_copy(network_.network().parameters(), target_->parameters().begin());
  return absl::OkStatus();
}

absl::Status QLearnMode::SaveTrainState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(SaveParameters(target_->parameter_info(),
                                      std::as_const(*target_).parameters(), kTargetScope, writer));
  DING_RETURN_IF_ERROR(writer->WriteInt(kTrainIter, train_iter_));
  ScopedStateWriter scoped(writer, kOptimizerScope);
  return adam_.SaveState(&scoped);
}

absl::Status QLearnMode::LoadTrainState(StateReader* reader) {
  std::vector<float> target(target_->parameters().begin(), target_->parameters().end());
  DING_RETURN_IF_ERROR(
      LoadParameters(target_->parameter_info(), kTargetScope, reader, absl::MakeSpan(target)));
  DING_ASSIGN_OR_RETURN(const int64_t train_iter, reader->ReadCount(kTrainIter));
  ScopedStateReader scoped(reader, kOptimizerScope);
  DING_RETURN_IF_ERROR(adam_.LoadState(&scoped));
  absl::c_copy(target, target_->parameters().begin());
  train_iter_ = train_iter;
  return absl::OkStatus();
}

}  // namespace ding
