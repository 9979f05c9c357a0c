// Registers UniformSelector as the selector "uniform".

#include <memory>

#include "ding_worker/base/module.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/selection/selector.h"

namespace ding {
namespace {

DING_REGISTER(
    SelectorRegistry(), "uniform",
    [](const SelectorConfig&, const NoParams&) { return std::make_unique<UniformSelector>(); },
    "all that can be drawn is equally probable, whatever its priority");

}  // namespace
}  // namespace ding
