// Noisy layers (Fortunato et al. 2018, "Noisy Networks for Exploration", with factorised noise)
// around any network with linear heads: the weights and biases of the heads are random, with
// learned deviations.
//
//     weight = mean + deviation * f(e_out) f(e_in)^T     bias = mean + deviation * f(e_out)
//     f(x) = sign(x) sqrt(|x|), e standard normal
//
// The heads are the layers "<output field>/..." of the inner network, with parameters ".../weight"
// [out, in] and ".../bias" [out]. The parameters of the inner network are the means; the deviations
// come after them, as ".../weight_deviation" and ".../bias_deviation". Each deviation begins as
// `deviation` / sqrt(in). The numbers e are equal for all rows of a batch, as policy/network.h
// says; with UseMeans() they are 0.
//
// Ownership: owns the inner network, whose parameters are working memory from then on.
// Threads, errors: as policy/network.h.
#ifndef DING_WORKER_POLICY_NOISY_NETWORK_H_
#define DING_WORKER_POLICY_NOISY_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/network.h"

namespace ding {

class NoisyNetwork : public RandomNetwork {
 public:
  // `deviation` is above 0; the paper has 0.5.
  //   kInvalidArgument  `deviation` is out of range, or the network has no such layer
  static absl::StatusOr<std::unique_ptr<NoisyNetwork>> Create(std::unique_ptr<Network> inner,
                                                              double deviation);

  void Draw(Rng* rng) override;
  void UseMeans() override;

  const SpecPtr& input_spec() const override { return inner_->input_spec(); }
  const SpecPtr& output_spec() const override { return inner_->output_spec(); }
  absl::Span<const ParameterInfo> parameter_info() const override { return info_; }
  absl::Span<float> parameters() override { return parameters_.mutable_data<float>(); }
  absl::Span<const float> parameters() const override { return parameters_.data<float>(); }
  absl::Span<float> gradients() override { return gradients_.mutable_data<float>(); }

  absl::Status Infer(const ColumnsView& input, const MutableColumnsView& output) override;
  absl::Status Forward(const ColumnsView& input, const MutableColumnsView& output) override;
  absl::Status Backward(const ColumnsView& d_output) override;
  bool set_thread_team(ThreadTeam* team) override { return inner_->set_thread_team(team); }
  absl::StatusOr<std::unique_ptr<Network>> Clone() const override;
  std::string info() const override;

 private:
  // A noisy layer: the places of its parameters in the flat parameters, and its random numbers.
  struct Layer {
    std::string name;  // "q/0"
    int64_t in = 0;
    int64_t out = 0;
    int64_t weight = 0;
    int64_t bias = 0;
    int64_t weight_deviation = 0;
    int64_t bias_deviation = 0;
    std::vector<float> noise_in = {};   // f(e_in); 0 at first
    std::vector<float> noise_out = {};  // f(e_out)
  };

  static std::vector<Layer> FindLayers(const Network& inner);
  NoisyNetwork(std::unique_ptr<Network> inner, std::vector<Layer> layers);

  // Writes the parameters with their noise into the inner network.
  void Apply();

  const std::unique_ptr<Network> inner_;
  std::vector<Layer> layers_;
  std::vector<ParameterInfo> info_;
  Tensor parameters_;
  Tensor gradients_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_NOISY_NETWORK_H_
