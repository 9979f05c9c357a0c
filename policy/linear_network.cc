#include "ding_worker/policy/linear_network.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// Checks, as Network requires, that the first field is the expected one; further fields may follow.
absl::Status CheckFirstField(const Spec& expected, const Spec& found, absl::string_view where) {
  const FieldSpec& want = expected.field(0);
  if (found.size() > 0 && found.field(0).name == want.name && found.field(0).dtype == want.dtype &&
      found.field(0).shape == want.shape) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("linear network's ", where, ": expected '",
                                                 want.name, "' ", want.DebugString(), ", found\n",
                                                 found.DebugString()));
}

}  // namespace

LinearNetwork::LinearNetwork(SpecPtr input, SpecPtr output, uint64_t seed)
    : input_(std::move(input)), output_(std::move(output)) {
  info_ = {{"linear/weight", {num_outputs(), num_inputs()}, 0},
           {"linear/bias", {num_outputs()}, num_outputs() * num_inputs()}};
  parameters_.resize(static_cast<size_t>(num_outputs() * (num_inputs() + 1)));
  gradients_.resize(parameters_.size());
  Rng rng(seed, "policy/init");
  for (float& parameter : parameters_) parameter = static_cast<float>(rng.Uniform(-1, 1));
}

absl::Status LinearNetwork::Infer(const ColumnsView& input, const MutableColumnsView& output) {
  DING_RETURN_IF_ERROR(CheckFirstField(*input_, input.spec(), "input"));
  DING_RETURN_IF_ERROR(CheckFirstField(*output_, output.spec(), "output"));
  if (output.rows() < input.rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "linear network: ", input.rows(), " input rows for ", output.rows(), " output rows"));
  }
  const absl::Span<const float> x = input.column<float>(0);
  const absl::Span<float> y = output.column<float>(0);
  const float* bias = parameters_.data() + info_[1].offset;
  for (int64_t row = 0; row < input.rows(); ++row) {
    for (int64_t a = 0; a < num_outputs(); ++a) {
      float sum = bias[a];
      for (int64_t n = 0; n < num_inputs(); ++n) {
        sum += parameters_[a * num_inputs() + n] * x[row * num_inputs() + n];
      }
      y[row * num_outputs() + a] = sum;
    }
  }
  return absl::OkStatus();
}

absl::Status LinearNetwork::Forward(const ColumnsView& input, const MutableColumnsView& output) {
  DING_RETURN_IF_ERROR(Infer(input, output));
  const absl::Span<const float> x = input.column<float>(0);
  last_input_.assign(x.begin(), x.end());
  forward_rows_ = input.rows();
  return absl::OkStatus();
}

absl::Status LinearNetwork::Backward(const ColumnsView& d_output) {
  DING_RETURN_IF_ERROR(CheckFirstField(*output_, d_output.spec(), "d_output"));
  const absl::Span<const float> d_y = d_output.column<float>(0);
  if (d_output.rows() != forward_rows_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "linear network: Backward() of ", d_output.rows(), " rows, but ",
        forward_rows_ < 0 ? std::string("no Forward() was before it")
                          : absl::StrCat("Forward() was of ", forward_rows_, " rows")));
  }
  forward_rows_ = -1;
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  float* bias = gradients_.data() + info_[1].offset;
  for (int64_t row = 0; row < d_output.rows(); ++row) {
    for (int64_t a = 0; a < num_outputs(); ++a) {
      const float d = d_y[row * num_outputs() + a];
      bias[a] += d;
      for (int64_t n = 0; n < num_inputs(); ++n) {
        gradients_[a * num_inputs() + n] += d * last_input_[row * num_inputs() + n];
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Network>> LinearNetwork::Clone() const {
  return absl::WrapUnique<Network>(new LinearNetwork(*this));
}

std::string LinearNetwork::info() const {
  return absl::StrCat("linear ", num_inputs(), "-", num_outputs(), ": ", parameters_.size(),
                      " parameters");
}

}  // namespace ding
