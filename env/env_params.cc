#include "ding_worker/env/env_params.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace ding {

absl::Status UnpackEnvParams(const EnvConfig& config, google::protobuf::Message* params) {
  if (!config.has_params() || config.params().UnpackTo(params)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("env '", config.type(), "': params are a ",
                                                 config.params().type_url(), ", expected a ",
                                                 params->GetDescriptor()->full_name()));
}

EnvCreator WithoutParams(std::function<absl::StatusOr<std::unique_ptr<Env>>()> create) {
  return [create =
              std::move(create)](const EnvConfig& config) -> absl::StatusOr<std::unique_ptr<Env>> {
    if (config.has_params()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "env '", config.type(), "' takes no params, got ", config.params().type_url()));
    }
    return create();
  };
}

}  // namespace ding
