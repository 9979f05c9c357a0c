#include "ding_worker/replay_buffer/selection/importance_weights.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {

void AppendPriorityProblems(const PriorityOptions& options, std::vector<std::string>* problems) {
  const auto probability = [problems](absl::string_view name, double value) {
    if (value >= 0 && value <= 1) return;
    problems->push_back(absl::StrCat(name, " is ", value, ", expected 0 to 1"));
  };
  probability("alpha", options.alpha);
  probability("beta", options.beta);
  if (options.anneal_step < 0) {
    problems->push_back(
        absl::StrCat("anneal_step is ", options.anneal_step, ", expected at least 0"));
  }
}

void AnnealedBeta::CountDraw() {
  if (options_.anneal_step == 0) return;
  const double step = (1 - options_.beta) / static_cast<double>(options_.anneal_step);
  value_ = std::min(1.0, value_ + step);
}

StateSnapshot AnnealedBeta::Snapshot() const {
  return [options = options_, value = value_](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(writer->WriteDouble("first_beta", options.beta));
    DING_RETURN_IF_ERROR(writer->WriteInt("anneal_step", options.anneal_step));
    return writer->WriteDouble("beta", value);
  };
}

absl::StatusOr<double> AnnealedBeta::Read(StateReader* reader) const {
  DING_ASSIGN_OR_RETURN(const double first, reader->ReadDouble("first_beta"));
  if (first != options_.beta) {
    return absl::InvalidArgumentError(
        absl::StrCat("saved first beta is ", first, ", expected ", options_.beta));
  }
  DING_RETURN_IF_ERROR(CheckSavedInt(reader, "anneal_step", options_.anneal_step));
  DING_ASSIGN_OR_RETURN(const double value, reader->ReadDouble("beta"));
  if (value >= 0 && value <= 1) return value;
  return absl::InvalidArgumentError(absl::StrCat("saved beta is ", value, ", expected 0 to 1"));
}

void ToImportanceWeights(const DrawFacts& facts, size_t stride, absl::Span<float> weights) {
  const float least = facts.min_weight;
  const auto beta = static_cast<float>(facts.beta);
  for (size_t i = 0; i < weights.size(); i += stride) {
    weights[i] = least > 0 && weights[i] != least ? std::pow(least / weights[i], beta) : 1.0f;
  }
}

}  // namespace ding
