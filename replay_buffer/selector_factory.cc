// Registers UniformSelector as the selector "uniform".

#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/selection/selector.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<ISelector>> CreateUniformSelector(const SelectorConfig& config) {
  DING_RETURN_IF_ERROR(Annotate(ReadParams(config, /*params=*/nullptr), "selector"));
  return std::make_unique<UniformSelector>();
}

DING_REGISTER(SelectorRegistry(), "uniform", CreateUniformSelector,
              "all that can be drawn is equally probable, whatever its priority");

}  // namespace
}  // namespace ding
