// The smallest Network, for tests of algorithms: one output field [A] = weight x + bias of one float32
// input field x [N]. Its values and gradients can be computed by hand, and on one-hot inputs it is a
// table.
//
// Ownership, threads, errors: as Network.
#ifndef DING_WORKER_POLICY_LINEAR_NETWORK_H_
#define DING_WORKER_POLICY_LINEAR_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"

namespace ding {

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

}  // namespace ding

#endif  // DING_WORKER_POLICY_LINEAR_NETWORK_H_
