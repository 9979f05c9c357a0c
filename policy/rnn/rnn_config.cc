#include "ding_worker/policy/rnn/rnn_config.h"

#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/mlp/mlp_config.h"

namespace ding {

absl::StatusOr<RnnOptions> RnnOptionsFromConfig(const NetworkConfig& config) {
  DING_RETURN_IF_ERROR(RefuseConvolutions(config));
  RnnOptions options;
  DING_ASSIGN_OR_RETURN(options.mlp, MlpOptionsFromConfig(config));
  options.cell = config.recurrent().cell() == RecurrentConfig::GRU ? RnnCell::kGru : RnnCell::kLstm;
  options.hidden_size = config.recurrent().hidden_size();
  return options;
}

}  // namespace ding
