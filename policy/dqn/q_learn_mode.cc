#include "ding_worker/policy/dqn/q_learn_mode.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/parameter_state.h"
#include "ding_worker/policy/target_update.h"

namespace ding {
namespace {

// Train iterations between two measurements of the gradient, which take longer than the other ones.
constexpr int64_t kMeasurePeriod = 10;

LearnDescription Describe(const QNetwork& network, const DqnOptions& options) {
  LearnDescription description;
  description.algorithm = network.algorithm();
  description.info = absl::StrCat(options.double_q ? "double " : "", network.algorithm(), " on ",
                                  network.network().info());
  description.attributes = options.learn;
  description.reducer = options.reducer;
  // Not grad_norm, which not every iteration reports.
  description.monitor_vars = {"cur_lr", "total_loss", "q_value", "target_q_value", "td_error"};
  description.norm_period = kMeasurePeriod;
  return description;
}

}  // namespace

absl::StatusOr<QLearnMode::Parts> QLearnMode::MakeParts(const QNetwork& network,
                                                        const DqnOptions& options) {
  DING_RETURN_IF_ERROR(Validate(options.target_update));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Network> target, network.network().Clone());
  DING_ASSIGN_OR_RETURN(GroupAdam adam,
                        GroupAdam::Create({ParametersOf("optimizer", &network.network())},
                                          options.adam, options.grad_clip_norm));
  return Parts{std::move(target), std::move(adam)};
}

QLearnMode::QLearnMode(QNetwork* network, const DqnOptions& options, Parts parts)
    : GradientLearnMode(Describe(*network, options), std::move(parts.adam)),
      network_(*network),
      options_(options),
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
  UpdateTarget(options_.target_update, train_iter(), network_.network().parameters(),
               target_->parameters());
}

void QLearnMode::Report(const QLoss& loss, LearnStep* step) const {
  step->scalars.Set("total_loss", loss.loss);
  step->scalars.Set("q_value", loss.mean_q);
  step->scalars.Set("target_q_value", loss.mean_next_value);
  double absolute = 0;
  for (const float td : loss.td_error) absolute += std::abs(td);
  // Rows that are not learned from (padding and burn-in of sequences) have the error 0.
  step->scalars.Set("td_error", absolute / static_cast<double>(loss.rows));
  step->histograms.resize(1);  // not cleared, so that its memory is reused
  step->histograms[0].first = "td_error";
  std::vector<float>& histogram = step->histograms[0].second;
  histogram.assign(loss.td_error.begin(), loss.td_error.end());
  if (loss.rows < static_cast<int64_t>(histogram.size())) {
    histogram.erase(std::remove(histogram.begin(), histogram.end(), 0.0f), histogram.end());
  }
  if (!options_.learn.priority) return;
  step->priority.assign(loss.priority.begin(), loss.priority.end());
  if (!loss.priority.empty()) return;
  for (const float td : loss.td_error) step->priority.push_back(std::abs(td));
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

}  // namespace ding
