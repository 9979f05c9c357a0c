// Registers Room.
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env_registry.h"
#include "room/room.h"

namespace room_env {
namespace {

DING_REGISTER(ding::EnvRegistry(), "Room", ding::WithoutParams(CreateRoom),
              "walk to the goal in a square room: 2 continuous actions, up to 20 steps");

}  // namespace
}  // namespace room_env
