// Networks for tests of algorithms: linear, leaky (recurrent), and a small Mlp; and a comparison of
// gradients with finite differences.
#ifndef DING_WORKER_POLICY_TESTING_TEST_NETWORKS_H_
#define DING_WORKER_POLICY_TESTING_TEST_NETWORKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/network.h"

namespace ding {

// The smallest Network, for tests of algorithms: one output field [A] = weight x + bias of one
// float32 input field x [N]. Its values and gradients can be computed by hand, and on one-hot
// inputs it is a table.
//
// Ownership, threads, errors: as Network.
class LinearNetwork : public Network {
 public:
  // Draws parameters uniformly from [-1, 1) with the stream (seed, "policy/init"). Input and output
  // specs have one float32 field of one axis each.
  LinearNetwork(SpecPtr input, SpecPtr output, uint64_t seed);

  const SpecPtr& input_spec() const override { return input_; }
  const SpecPtr& output_spec() const override { return output_; }
  absl::Span<const ParameterInfo> parameter_info() const override { return info_; }
  absl::Span<float> parameters() override { return absl::MakeSpan(parameters_); }
  absl::Span<const float> parameters() const override { return parameters_; }
  absl::Span<float> gradients() override { return absl::MakeSpan(gradients_); }

  absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) override;
  absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) override;
  absl::Status Backward(const ColumnsView& d_output) override;

  absl::StatusOr<std::unique_ptr<Network>> Clone() const override;
  std::string info() const override;

 private:
  LinearNetwork(const LinearNetwork&) = default;

  int64_t num_inputs() const { return input_->field(0).num_elements(); }
  int64_t num_outputs() const { return output_->field(0).num_elements(); }

  SpecPtr input_;
  SpecPtr output_;
  std::vector<ParameterInfo> info_;
  std::vector<float> parameters_;  // weight [A, N], bias [A]
  std::vector<float> gradients_;
  std::vector<float> last_input_;
  int64_t forward_rows_ = -1;  // rows of the Forward() without a Backward() yet; -1: none
};

// The smallest recurrent network, for tests of algorithms: leaky integrators of a linear input,
// with a linear head. Its values and gradients can be computed by hand.
//
//   s_t = kLeak s_(t-1) + weight x_t        state  [S]: S integrators
//   y_t = head s_t + bias                   output [A]
//
// Ownership, threads, errors: as RecurrentNetwork.
class LeakyNetwork : public RecurrentNetwork {
 public:
  static constexpr float kLeak = 0.75f;

  // Input and output specs have one float32 field of one axis each. Parameters are drawn uniformly
  // from [-0.5, 0.5) with the stream (seed, "policy/init").
  LeakyNetwork(SpecPtr input, SpecPtr output, int64_t state_size, uint64_t seed);

  const SpecPtr& input_spec() const override { return input_; }
  const SpecPtr& output_spec() const override { return output_; }
  absl::Span<const ParameterInfo> parameter_info() const override { return info_; }
  absl::Span<float> parameters() override { return absl::MakeSpan(parameters_); }
  absl::Span<const float> parameters() const override { return parameters_; }
  absl::Span<float> gradients() override { return absl::MakeSpan(gradients_); }
  int64_t state_size() const override { return state_size_; }

  absl::Status InferSequences(const Sequences& sequences, const MutableColumnsView& output,
                              absl::Span<float> states) override;
  absl::Status ForwardSequences(const Sequences& sequences, const MutableColumnsView& output,
                                absl::Span<float> states) override;
  absl::Status Backward(const ColumnsView& d_output) override;

  absl::StatusOr<std::unique_ptr<Network>> Clone() const override;
  std::string info() const override;

 private:
  LeakyNetwork(const LeakyNetwork&) = default;

  int64_t num_inputs() const { return input_->field(0).num_elements(); }
  int64_t num_outputs() const { return output_->field(0).num_elements(); }
  absl::Status CheckSizes(const Sequences& sequences, const MutableColumnsView& output,
                          absl::Span<const float> states) const;
  // Replaces `state`, the state before the row, by the state after it, and computes the outputs.
  void Step(const float* x, float* state, float* y) const;
  bool Resets(const Sequences& sequences, int64_t row) const;

  SpecPtr input_;
  SpecPtr output_;
  int64_t state_size_;
  std::vector<ParameterInfo> info_;
  std::vector<float> parameters_;  // weight [S, N], head [A, S], bias [A]
  std::vector<float> gradients_;
  std::vector<float> state_;    // [S] scratch
  std::vector<float> d_state_;  // [S] scratch
  // What the last ForwardSequences() left for Backward().
  int64_t forward_rows_ = -1;  // -1: none that has no Backward() yet
  int64_t forward_length_ = 1;
  int64_t forward_burn_in_ = 0;
  std::vector<float> forward_input_;   // [B * T, N]
  std::vector<float> forward_states_;  // [B * T, S], after each row
  std::vector<uint8_t> forward_resets_;
};

// Returns the options of an Mlp that is small and smooth, for tests that compare gradients with
// finite differences: hidden layers of 12 and 8 units, and tanh.
inline MlpOptions SmallMlpOptions() {
  MlpOptions options;
  options.encoder_hidden_size = {12, 8};
  options.head_layer_num = 0;
  options.activation = MlpOptions::Activation::kTanh;
  return options;
}

}  // namespace ding

#endif  // DING_WORKER_POLICY_TESTING_TEST_NETWORKS_H_
