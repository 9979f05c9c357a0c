#include "ding_worker/policy/testing/test_networks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

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
  DING_RETURN_IF_ERROR(CheckFirstFields(*input_, input.spec(), "linear network's input"));
  DING_RETURN_IF_ERROR(CheckFirstFields(*output_, output.spec(), "linear network's output"));
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
  DING_RETURN_IF_ERROR(CheckFirstFields(*output_, d_output.spec(), "linear network's d_output"));
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

LeakyNetwork::LeakyNetwork(SpecPtr input, SpecPtr output, int64_t state_size, uint64_t seed)
    : input_(std::move(input)), output_(std::move(output)), state_size_(state_size) {
  const int64_t weights = state_size * num_inputs();
  const int64_t heads = num_outputs() * state_size;
  info_ = {{"leaky/weight", {state_size, num_inputs()}, 0},
           {"leaky/head", {num_outputs(), state_size}, weights},
           {"leaky/bias", {num_outputs()}, weights + heads}};
  parameters_.resize(static_cast<size_t>(weights + heads + num_outputs()));
  gradients_.resize(parameters_.size());
  state_.resize(static_cast<size_t>(state_size));
  d_state_.resize(static_cast<size_t>(state_size));
  Rng rng(seed, "policy/init");
  for (float& parameter : parameters_) parameter = static_cast<float>(rng.Uniform(-0.5, 0.5));
}

absl::Status LeakyNetwork::CheckSizes(const Sequences& sequences, const MutableColumnsView& output,
                                      absl::Span<const float> states) const {
  DING_RETURN_IF_ERROR(CheckFirstFields(*input_, sequences.rows.spec(), "leaky network's input"));
  DING_RETURN_IF_ERROR(CheckFirstFields(*output_, output.spec(), "leaky network's output"));
  const int64_t rows = sequences.rows.rows();
  if (output.rows() < rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("leaky network: ", rows, " input rows for ", output.rows(), " output rows"));
  }
  const bool divides = sequences.length >= 1 && rows % sequences.length == 0 &&
                       sequences.burn_in >= 0 && sequences.burn_in < sequences.length;
  const auto fits = [&](size_t size, int64_t wanted) {
    return size == 0 || size == static_cast<size_t>(wanted * state_size_);
  };
  const int64_t count = divides ? rows / sequences.length : 0;
  if (divides && fits(sequences.state.size(), count) &&
      (fits(states.size(), count) || fits(states.size(), rows)) &&
      (sequences.is_first.empty() || sequences.is_first.size() == static_cast<size_t>(rows))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("leaky network: the sizes do not fit together: ", rows, " rows in sequences of ",
                   sequences.length, ", burn-in ", sequences.burn_in, ", ", sequences.state.size(),
                   " floats of state before, ", states.size(), " after"));
}

void LeakyNetwork::Step(const float* x, float* state, float* y) const {
  const float* const weight = parameters_.data();
  const float* const head = weight + info_[1].offset;
  const float* const bias = weight + info_[2].offset;
  for (int64_t s = 0; s < state_size_; ++s) {
    float sum = kLeak * state[s];
    for (int64_t n = 0; n < num_inputs(); ++n) sum += weight[s * num_inputs() + n] * x[n];
    state[s] = sum;
  }
  for (int64_t a = 0; a < num_outputs(); ++a) {
    y[a] = bias[a];
    for (int64_t s = 0; s < state_size_; ++s) y[a] += head[a * state_size_ + s] * state[s];
  }
}

bool LeakyNetwork::Resets(const Sequences& sequences, int64_t row) const {
  return !sequences.is_first.empty() && sequences.is_first[static_cast<size_t>(row)] != 0;
}

absl::Status LeakyNetwork::InferSequences(const Sequences& sequences,
                                          const MutableColumnsView& output,
                                          absl::Span<float> states) {
  DING_RETURN_IF_ERROR(CheckSizes(sequences, output, states));
  const auto width = static_cast<size_t>(state_size_);
  const int64_t rows = sequences.rows.rows();
  const float* const x = sequences.rows.column<float>(0).data();
  float* const y = output.column<float>(0).data();
  const bool after_each_row = states.size() == static_cast<size_t>(rows) * width;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t sequence = row / sequences.length;
    const int64_t step = row % sequences.length;
    if ((step == 0 && sequences.state.empty()) || Resets(sequences, row)) {
      std::fill(state_.begin(), state_.end(), 0.0f);
    } else if (step == 0) {
      std::copy_n(sequences.state.data() + static_cast<size_t>(sequence) * width, width,
                  state_.begin());
    }
    Step(x + row * num_inputs(), state_.data(), y + row * num_outputs());
    if (states.empty()) continue;
    if (after_each_row) {
      std::copy(state_.begin(), state_.end(), states.data() + static_cast<size_t>(row) * width);
    } else if (step == sequences.length - 1) {
      std::copy(state_.begin(), state_.end(),
                states.data() + static_cast<size_t>(sequence) * width);
    }
  }
  return absl::OkStatus();
}

absl::Status LeakyNetwork::ForwardSequences(const Sequences& sequences,
                                            const MutableColumnsView& output,
                                            absl::Span<float> states) {
  DING_RETURN_IF_ERROR(CheckSizes(sequences, output, states));
  const int64_t rows = sequences.rows.rows();
  forward_states_.resize(static_cast<size_t>(rows * state_size_));
  DING_RETURN_IF_ERROR(InferSequences(sequences, output, absl::MakeSpan(forward_states_)));
  const absl::Span<const float> x = sequences.rows.column<float>(0);
  forward_input_.assign(x.begin(), x.end());
  forward_resets_.assign(static_cast<size_t>(rows), 0);
  std::copy(sequences.is_first.begin(), sequences.is_first.end(), forward_resets_.begin());
  forward_rows_ = rows;
  forward_length_ = sequences.length;
  forward_burn_in_ = sequences.burn_in;
  if (states.size() == forward_states_.size()) {
    std::copy(forward_states_.begin(), forward_states_.end(), states.begin());
    return absl::OkStatus();
  }
  return states.empty() ? absl::OkStatus() : InferSequences(sequences, output, states);
}

absl::Status LeakyNetwork::Backward(const ColumnsView& d_output) {
  DING_RETURN_IF_ERROR(CheckFirstFields(*output_, d_output.spec(), "leaky network's d_output"));
  if (d_output.rows() != forward_rows_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "leaky network: Backward() of ", d_output.rows(), " rows, but ",
        forward_rows_ < 0 ? std::string("no Forward() was before it")
                          : absl::StrCat("Forward() was of ", forward_rows_, " rows")));
  }
  forward_rows_ = -1;
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  const float* const d_y = d_output.column<float>(0).data();
  const float* const head = parameters_.data() + info_[1].offset;
  float* const d_weight = gradients_.data();
  float* const d_head = d_weight + info_[1].offset;
  float* const d_bias = d_weight + info_[2].offset;
  for (int64_t row = d_output.rows() - 1; row >= 0; --row) {
    const int64_t step = row % forward_length_;
    if (step == forward_length_ - 1) std::fill(d_state_.begin(), d_state_.end(), 0.0f);
    if (step < forward_burn_in_) continue;
    const float* const state = forward_states_.data() + row * state_size_;
    for (int64_t a = 0; a < num_outputs(); ++a) {
      const float d = d_y[row * num_outputs() + a];
      d_bias[a] += d;
      for (int64_t s = 0; s < state_size_; ++s) {
        d_head[a * state_size_ + s] += d * state[s];
        d_state_[static_cast<size_t>(s)] += d * head[a * state_size_ + s];
      }
    }
    for (int64_t s = 0; s < state_size_; ++s) {
      float& d_s = d_state_[static_cast<size_t>(s)];
      for (int64_t n = 0; n < num_inputs(); ++n) {
        d_weight[s * num_inputs() + n] +=
            d_s * forward_input_[static_cast<size_t>(row * num_inputs() + n)];
      }
      d_s *= forward_resets_[static_cast<size_t>(row)] != 0 ? 0.0f : kLeak;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Network>> LeakyNetwork::Clone() const {
  return absl::WrapUnique<Network>(new LeakyNetwork(*this));
}

std::string LeakyNetwork::info() const {
  return absl::StrCat("leaky ", num_inputs(), "-", state_size_, "-", num_outputs(), ": ",
                      parameters_.size(), " parameters");
}

}  // namespace ding
