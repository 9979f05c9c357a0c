#include "ding_worker/policy/actor_critic/network_part.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

NetworkPart::NetworkPart(std::unique_ptr<Network> network, int64_t state_begin)
    : network_(std::move(network)),
      recurrent_(AsRecurrent(network_.get())),
      state_begin_(state_begin) {}

absl::Span<const float> NetworkPart::PartOf(absl::Span<const float> states, int64_t rows) {
  if (states.empty()) return {};
  const auto size = static_cast<size_t>(state_size());
  const size_t width = states.size() / static_cast<size_t>(rows);
  DING_CHECK(width * static_cast<size_t>(rows) == states.size() &&
             static_cast<size_t>(state_begin_) + size <= width)
      << "states of " << states.size() << " floats for " << rows << " rows";
  if (size == width) return states;
  part_.resize(static_cast<size_t>(rows) * size);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    std::copy_n(states.data() + row * width + static_cast<size_t>(state_begin_), size,
                part_.data() + row * size);
  }
  return part_;
}

absl::Status NetworkPart::Infer(const ColumnsView& input, absl::Span<float> states,
                                const MutableColumnsView& output) {
  if (recurrent_ == nullptr || states.empty()) return network_->Infer(input, output);
  Sequences steps;
  steps.rows = input;
  steps.state = PartOf(states, input.rows());
  if (steps.state.data() == states.data()) {
    return recurrent_->InferSequences(steps, output, states);
  }
  DING_RETURN_IF_ERROR(recurrent_->InferSequences(steps, output, absl::MakeSpan(part_)));
  const auto size = static_cast<size_t>(state_size());
  const size_t width = states.size() / static_cast<size_t>(input.rows());
  for (size_t row = 0; row < static_cast<size_t>(input.rows()); ++row) {
    std::copy_n(part_.data() + row * size, size,
                states.data() + row * width + static_cast<size_t>(state_begin_));
  }
  return absl::OkStatus();
}

absl::Status NetworkPart::Forward(const ColumnsView& input, int64_t length,
                                  absl::Span<const float> states,
                                  const MutableColumnsView& output) {
  if (recurrent_ == nullptr) return network_->Forward(input, output);
  Sequences sequences;
  sequences.rows = input;
  sequences.length = length;
  sequences.state = PartOf(states, input.rows() / length);
  return recurrent_->ForwardSequences(sequences, output, {});
}

}  // namespace ding
