#include "ding_worker/policy/optimizer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/adam_loops.h"

namespace ding {

using internal_adam::AdamFactors;
using internal_adam::AdamLoops;
using internal_adam::AdamLoopsFor;

namespace {

const AdamLoops& BestLoops() {
  static const AdamLoops& loops = AdamLoopsFor(BestInstructionSet());
  return loops;
}

absl::Status CheckFinite(absl::Span<const float> gradients) {
  const int64_t bad = FindNonFinite(gradients);
  if (bad < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gradient ", bad, " of ", gradients.size(), " is ", gradients[bad]));
}

absl::Status CheckLearningRate(double lr) {
  if (lr >= 0 && std::isfinite(lr)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("lr is ", lr, "; it must be finite and at least 0"));
}

absl::Status CheckOptions(const AdamOptions& options) {
  std::vector<std::string> problems;
  if (absl::Status status = CheckLearningRate(options.lr); !status.ok()) {
    problems.emplace_back(status.message());
  }
  const auto check_beta = [&problems](absl::string_view name, double beta) {
    if (!(beta >= 0 && beta < 1)) {
      problems.push_back(absl::StrCat(name, " is ", beta, "; it must be in [0, 1)"));
    }
  };
  check_beta("beta1", options.beta1);
  check_beta("beta2", options.beta2);
  if (!(options.eps > 0 && std::isfinite(options.eps))) {
    problems.push_back(absl::StrCat("eps is ", options.eps, "; it must be finite and above 0"));
  }
  if (!(options.weight_decay >= 0 && std::isfinite(options.weight_decay))) {
    problems.push_back(absl::StrCat("weight_decay is ", options.weight_decay,
                                    "; it must be finite and at least 0"));
  }
  return ProblemsToStatus(problems, "Adam");
}

}  // namespace

absl::StatusOr<Adam> Adam::Create(const AdamOptions& options, int64_t num_parameters) {
  DING_RETURN_IF_ERROR(CheckOptions(options));
  return Adam(options, num_parameters);
}

Adam::Adam(const AdamOptions& options, int64_t num_parameters)
    : options_(options),
      first_moment_(Tensor::Zeros(DType::kFloat32, {num_parameters})),
      second_moment_(Tensor::Zeros(DType::kFloat32, {num_parameters})) {}

absl::Status Adam::set_lr(double lr) {
  DING_RETURN_IF_ERROR(CheckLearningRate(lr));
  options_.lr = lr;
  return absl::OkStatus();
}

absl::Status Adam::Step(absl::Span<const float> gradients, absl::Span<float> parameters) {
  const int64_t size = first_moment_.num_elements();
  if (static_cast<int64_t>(gradients.size()) != size ||
      static_cast<int64_t>(parameters.size()) != size) {
    return absl::InvalidArgumentError(absl::StrCat("Adam of ", size, " parameters: got ",
                                                   gradients.size(), " gradients and ",
                                                   parameters.size(), " parameters"));
  }
  DING_RETURN_IF_ERROR(Annotate(CheckFinite(gradients), "Adam"));
  ++num_steps_;
  const auto steps = static_cast<double>(num_steps_);
  const AdamFactors factors = {
      static_cast<float>(options_.beta1),
      static_cast<float>(1 - options_.beta1),
      static_cast<float>(options_.beta2),
      static_cast<float>(1 - options_.beta2),
      static_cast<float>(options_.weight_decay),
      static_cast<float>(options_.lr / (1 - std::pow(options_.beta1, steps))),
      static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, steps))),
      static_cast<float>(options_.eps)};
  ScopedFlushDenormals flush;
  BestLoops().step(factors, size, gradients.data(), first_moment_.mutable_data<float>().data(),
                   second_moment_.mutable_data<float>().data(), parameters.data());
  return absl::OkStatus();
}

void Adam::MoveTo(std::unique_ptr<DeviceAdam> device) {
  device_ = std::move(device);
  device_->Write(first_moment_.data<float>(), second_moment_.data<float>());
}

absl::Status Adam::StepOnDevice(double max_norm, double* norm) {
  DING_RETURN_IF_ERROR(device_->Step(options_, num_steps_ + 1, max_norm, norm));
  ++num_steps_;
  return absl::OkStatus();
}

void Adam::Fetch() const {
  if (device_ == nullptr) return;
  device_->Read(first_moment_.mutable_data<float>(), second_moment_.mutable_data<float>());
}

absl::Status Adam::SaveState(StateWriter* writer) const {
  Fetch();
  DING_RETURN_IF_ERROR(writer->WriteTensor("first_moment", first_moment_));
  DING_RETURN_IF_ERROR(writer->WriteTensor("second_moment", second_moment_));
  DING_RETURN_IF_ERROR(writer->WriteInt("num_steps", num_steps_));
  return writer->WriteDouble("lr", options_.lr);
}

absl::Status Adam::LoadState(StateReader* reader) {
  Tensor first = Tensor::Zeros(DType::kFloat32, first_moment_.shape());
  Tensor second = Tensor::Zeros(DType::kFloat32, second_moment_.shape());
  DING_RETURN_IF_ERROR(reader->ReadSpan("first_moment", first.mutable_data<float>()));
  DING_RETURN_IF_ERROR(reader->ReadSpan("second_moment", second.mutable_data<float>()));
  DING_ASSIGN_OR_RETURN(const int64_t num_steps, reader->ReadCount("num_steps"));
  DING_ASSIGN_OR_RETURN(const double lr, reader->ReadDouble("lr"));
  DING_RETURN_IF_ERROR(set_lr(lr));
  num_steps_ = num_steps;
  first_moment_ = std::move(first);
  second_moment_ = std::move(second);
  if (device_ != nullptr) device_->Write(first_moment_.data<float>(), second_moment_.data<float>());
  return absl::OkStatus();
}

absl::StatusOr<Adam> Adam::Read(StateReader* reader) const {
  Adam adam(options_, first_moment_.num_elements());
  DING_RETURN_IF_ERROR(adam.LoadState(reader));
  return adam;
}

void Adam::CopyFrom(const Adam& other) {
  DING_CHECK(first_moment_.num_elements() == other.first_moment_.num_elements())
      << first_moment_.num_elements() << " and " << other.first_moment_.num_elements();
  options_ = other.options_;
  num_steps_ = other.num_steps_;
  other.Fetch();
  const auto copy = [](const Tensor& from, Tensor* to) {
    const absl::Span<const float> values = from.data<float>();
    std::copy(values.begin(), values.end(), to->mutable_data<float>().begin());
  };
  copy(other.first_moment_, &first_moment_);
  copy(other.second_moment_, &second_moment_);
  if (device_ != nullptr) device_->Write(first_moment_.data<float>(), second_moment_.data<float>());
}

absl::StatusOr<double> ClipGradientNorm(absl::Span<float> gradients, double max_norm) {
  return ClipGradientNorm(absl::MakeConstSpan(&gradients, 1), max_norm);
}

absl::StatusOr<double> ClipGradientNorm(absl::Span<const absl::Span<float>> pieces,
                                        double max_norm) {
  if (!(max_norm > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("clipping gradients: max_norm is ", max_norm, "; it must be above 0"));
  }
  for (const absl::Span<float> piece : pieces) {
    DING_RETURN_IF_ERROR(Annotate(CheckFinite(piece), "clipping gradients"));
  }
  const double norm = GradientNorm(pieces);
  if (norm > max_norm) {
    constexpr double kTorchEps = 1e-6;
    const auto scale = static_cast<float>(max_norm / (norm + kTorchEps));
    for (const absl::Span<float> piece : pieces) {
      for (float& value : piece) value *= scale;
    }
  }
  return norm;
}

double GradientNorm(absl::Span<const absl::Span<float>> pieces) {
  double squares = 0;
  for (const absl::Span<float> piece : pieces) {
    squares += BestLoops().sum_of_squares(piece.data(), static_cast<int64_t>(piece.size()));
  }
  return std::sqrt(squares);
}

absl::Status Validate(const TargetUpdate& update) {
  const bool hard = update.freq >= 1 && update.theta == 0;
  const bool soft = update.freq == 0 && update.theta > 0 && update.theta <= 1;
  if (hard || soft) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "target update: freq is ", update.freq, " and theta is ", update.theta,
      ", expected either freq of at least 1 or theta in (0, 1], and the other one not set"));
}

void UpdateTarget(const TargetUpdate& update, int64_t train_iter, absl::Span<const float> online,
                  absl::Span<float> target) {
  DING_CHECK(online.size() == target.size()) << online.size() << " and " << target.size();
  if (update.freq > 0) {
    if (train_iter % update.freq == 0) std::copy(online.begin(), online.end(), target.begin());
    return;
  }
  const float theta = static_cast<float>(update.theta);
  const float* from = online.data();
  float* to = target.data();
  for (size_t i = 0; i < target.size(); ++i) to[i] = (1 - theta) * to[i] + theta * from[i];
}

}  // namespace ding
