#include "ding_worker/env/env_registry.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/call_factory.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/weighted_reward.h"

namespace ding {
namespace {

// What the names of envs begin with that most programs do not link, because they need libraries of physics.
constexpr const char* kPhysicsEnvs[] = {"Ant-",
                                        "BipedalWalker",
                                        "HalfCheetah-",
                                        "Hopper-",
                                        "InvertedDoublePendulum-",
                                        "InvertedPendulum-",
                                        "LunarLander",
                                        "MJCF",
                                        "Pusher-",
                                        "Reacher-",
                                        "Swimmer-",
                                        "Walker2d-"};
constexpr char kNeedsPhysics[] =
    " (envs on Box2D and MuJoCo need a program with them: //worker:serial_physics, which "
    "tools/train "
    "runs by itself where a config names one)";

absl::StatusOr<EnvCreator> FindCreator(const std::string& type) {
  absl::StatusOr<EnvCreator> create = EnvRegistry().Find(type);
  if (create.ok()) return create;
  const bool physics = std::any_of(std::begin(kPhysicsEnvs), std::end(kPhysicsEnvs),
                                   [&](const char* name) { return absl::StartsWith(type, name); });
  return absl::Status(create.status().code(),
                      absl::StrCat(create.status().message(), physics ? kNeedsPhysics : ""));
}

}  // namespace

Registry<EnvCreator>& EnvRegistry() {
  static auto* const registry = new Registry<EnvCreator>("env");
  return *registry;
}

Registry<EnvManagerCreator>& EnvManagerRegistry() {
  static auto* const registry = new Registry<EnvManagerCreator>("env manager");
  return *registry;
}

absl::StatusOr<std::unique_ptr<Env>> create_env(const EnvConfig& config) {
  if (config.type().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("env: type is missing; this program has: ",
                                                   absl::StrJoin(EnvRegistry().Names(), ", ")));
  }
  DING_ASSIGN_OR_RETURN(const EnvCreator create, FindCreator(config.type()));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Env> env,
                        CallFactory("env", config.type(), [&] { return create(config); }));
  if (config.reward_weights().empty()) return env;
  return MakeWeightedReward(std::move(env),
                            {config.reward_weights().begin(), config.reward_weights().end()});
}

absl::StatusOr<std::unique_ptr<EnvManager>> create_env_manager(const EnvManagerConfig& config,
                                                               std::vector<EnvFactory> factories,
                                                               const Clock* clock) {
  DING_ASSIGN_OR_RETURN(const EnvManagerCreator create, EnvManagerRegistry().Find(config.type()));
  return CallFactory("env manager", config.type(),
                     [&] { return create(config, std::move(factories), clock); });
}

}  // namespace ding
