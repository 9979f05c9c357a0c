#include "ding_worker/policy/network_config.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<MlpOptions> MlpOptionsFromConfig(const NetworkConfig& config) {
  DING_RETURN_IF_ERROR(Annotate(ReadParams(config, /*params=*/nullptr), "network"));
  MlpOptions options;
  options.encoder_hidden_size.assign(config.encoder_hidden_size().begin(),
                                     config.encoder_hidden_size().end());
  options.activation = config.activation() == NetworkConfig::TANH ? MlpOptions::Activation::kTanh
                                                                  : MlpOptions::Activation::kRelu;
  options.head_hidden_size = config.head_hidden_size();
  options.head_layer_num = config.head_layer_num();
  options.dueling = config.dueling();
  return options;
}

absl::StatusOr<MlpOptions> MlpOptionsWithEncoder(const NetworkConfig& config) {
  DING_ASSIGN_OR_RETURN(MlpOptions options, MlpOptionsFromConfig(config));
  const bool has_width = options.head_hidden_size > 0 || options.head_layer_num == 0;
  if (options.encoder_hidden_size.empty() && !has_width)
    options.encoder_hidden_size = {128, 128, 64};
  return options;
}

absl::Status RefuseDevices(const NetworkConfig& config) {
  if (config.device() == "cpu") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "network '", config.type(), "' computes on the CPU; found device '", config.device(),
      "', expected 'cpu', or a network of libtorch, such as 'torch_", config.type(), "'"));
}

absl::Status RefuseConvolutions(const NetworkConfig& config) {
  if (config.conv_size() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("network '", config.type(), "' has no convolutions; found ", config.conv_size(),
                   " conv, which is for 'torch_cnn'"));
}

absl::Status RefuseRecurrence(const NetworkConfig& config) {
  if (!config.has_recurrent()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "network '", config.type(),
      "' has no recurrent layer; found recurrent {}, which is for type 'rnn': set that "
      "type, or remove the section"));
}

absl::StatusOr<RnnOptions> RnnOptionsFromConfig(const NetworkConfig& config) {
  DING_RETURN_IF_ERROR(RefuseConvolutions(config));
  RnnOptions options;
  DING_ASSIGN_OR_RETURN(options.mlp, MlpOptionsFromConfig(config));
  options.cell = config.recurrent().cell() == RecurrentConfig::GRU ? RnnCell::kGru : RnnCell::kLstm;
  options.hidden_size = config.recurrent().hidden_size();
  return options;
}

}  // namespace ding
