// Registers Corridor.
#include <memory>

#include "absl/status/statusor.h"
#include "corridor.h"
#include "corridor.pb.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_registry.h"

namespace corridor_env {
namespace {

absl::StatusOr<std::unique_ptr<ding::Env>> Make(const ding::EnvConfig& /*config*/,
                                                const CorridorParams& params) {
  return CreateCorridor(params);
}

DING_REGISTER(ding::EnvRegistry(), "Corridor", Make,
              "walk to the goal in a row of 11 places: 3 actions, up to 50 steps");

}  // namespace
}  // namespace corridor_env
