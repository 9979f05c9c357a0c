// Registers the nine tasks on MuJoCo, and MJCF for models of the user.
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/mujoco/mjcf_task.h"
#include "ding_worker/env/mujoco/mujoco.pb.h"
#include "ding_worker/env/mujoco/mujoco_tasks.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Env>> CreateMjcf(const EnvConfig& config, const MjcfParams& params) {
  return CreateMjcfEnv(config.type(), params);
}

DING_REGISTER(EnvRegistry(), "Ant-v4", WithoutParams(CreateAnt),
              "run on four legs: 8 torques, up to 1000 steps");
DING_REGISTER(EnvRegistry(), "HalfCheetah-v4", WithoutParams(CreateHalfCheetah),
              "run with half a cheetah: 6 torques, 1000 steps");
DING_REGISTER(EnvRegistry(), "Hopper-v4", WithoutParams(CreateHopper),
              "hop forwards on one leg: 3 torques, up to 1000 steps");
DING_REGISTER(EnvRegistry(), "InvertedDoublePendulum-v4",
              WithoutParams(CreateInvertedDoublePendulum),
              "balance two poles on a cart: 1 force, up to 1000 steps");
DING_REGISTER(EnvRegistry(), "InvertedPendulum-v4", WithoutParams(CreateInvertedPendulum),
              "balance a pole on a cart: 1 force, up to 1000 steps");
DING_REGISTER(EnvRegistry(), "Pusher-v4", WithoutParams(CreatePusher),
              "push an object to a goal with an arm: 7 torques, 100 steps");
DING_REGISTER(EnvRegistry(), "Reacher-v4", WithoutParams(CreateReacher),
              "reach a target with a flat arm: 2 torques, 50 steps");
DING_REGISTER(EnvRegistry(), "Swimmer-v4", WithoutParams(CreateSwimmer),
              "swim forwards with two joints: 2 torques, 1000 steps");
DING_REGISTER(EnvRegistry(), "Walker2d-v4", WithoutParams(CreateWalker2d),
              "walk on two legs in a plane: 6 torques, up to 1000 steps");
DING_REGISTER(EnvRegistry(), "MJCF", CreateMjcf, "a model of yours in an MJCF file");

}  // namespace
}  // namespace ding
