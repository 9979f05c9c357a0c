// Registers "torch_mlp", "torch_cnn" and "torch_rnn", whose parameters NetworkConfig has, and
// counts the GPUs of a worker by libtorch, in programs that link it.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/process_resources.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/network_config.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "ding_worker/policy/torch/torch_models.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Network>> CreateMlp(const NetworkConfig& config,
                                                   const SpecPtr& input, const SpecPtr& outputs,
                                                   uint64_t seed) {
  DING_RETURN_IF_ERROR(RefuseConvolutions(config));
  DING_RETURN_IF_ERROR(RefuseRecurrence(config));
  DING_ASSIGN_OR_RETURN(const MlpOptions options, MlpOptionsWithEncoder(config));
  return CreateTorchMlp(options, input, outputs, seed, {config.device()});
}

DING_REGISTER(NetworkRegistry(), "torch_mlp", CreateMlp,
              "the layers of mlp on libtorch, to check and to measure");

absl::StatusOr<std::unique_ptr<Network>> CreateCnn(const NetworkConfig& config,
                                                   const SpecPtr& input, const SpecPtr& outputs,
                                                   uint64_t seed) {
  DING_RETURN_IF_ERROR(RefuseRecurrence(config));
  CnnOptions options;
  DING_ASSIGN_OR_RETURN(options.mlp, MlpOptionsWithEncoder(config));
  for (const ConvConfig& conv : config.conv()) {
    options.conv.push_back({conv.channels(), conv.kernel(), conv.stride(), conv.padding()});
  }
  return CreateTorchCnn(options, input, outputs, seed, {config.device()});
}

DING_REGISTER(NetworkRegistry(), "torch_cnn", CreateCnn,
              "convolutions before the layers of mlp, on libtorch: for pictures");

absl::StatusOr<std::unique_ptr<Network>> CreateRnn(const NetworkConfig& config,
                                                   const SpecPtr& input, const SpecPtr& outputs,
                                                   uint64_t seed) {
  DING_ASSIGN_OR_RETURN(const RnnOptions options, RnnOptionsFromConfig(config));
  return CreateTorchRnn(options, input, outputs, seed, {config.device()});
}

DING_REGISTER(NetworkRegistry(), "torch_rnn", CreateRnn,
              "the layers of rnn on libtorch: to check rnn and to measure libtorch");

[[maybe_unused]] const bool kCountsGpus = (SetGpuCounter(CountTorchGpus), true);

}  // namespace
}  // namespace ding
