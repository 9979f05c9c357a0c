#include "ding_worker/env/env_params.h"

#include <utility>

#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Status UnpackEnvParams(const EnvConfig& config, google::protobuf::Message* params) {
  return Annotate(ReadParams(config, params), "env");
}

EnvCreator WithoutParams(std::function<absl::StatusOr<std::unique_ptr<Env>>()> create) {
  return [create =
              std::move(create)](const EnvConfig& config) -> absl::StatusOr<std::unique_ptr<Env>> {
    DING_RETURN_IF_ERROR(Annotate(ReadParams(config, /*params=*/nullptr), "env"));
    return create();
  };
}

}  // namespace ding
