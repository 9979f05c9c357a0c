// Registers UniformSelector as the selector "uniform".
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/selection/selector.h"
#include "ding_worker/replay_buffer/selection/selector_registry.h"
#include "ding_worker/replay_buffer/selection/selectors.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<ISelector>> CreateUniformSelector(const SelectorConfig& config) {
  if (!config.has_params()) return std::make_unique<UniformSelector>();
  return absl::InvalidArgumentError(absl::StrCat("selector.params is ", config.params().type_url(),
                                                 ", but type 'uniform' has none"));
}

DING_REGISTER(SelectorRegistry(), "uniform", CreateUniformSelector,
              "all that can be drawn is equally probable, whatever its priority");

}  // namespace
}  // namespace ding
