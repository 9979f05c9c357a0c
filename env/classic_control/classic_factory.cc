#include "ding_worker/env/classic_control/classic_factory.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/env/env.pb.h"

namespace ding {

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
