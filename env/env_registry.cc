#include "ding_worker/env/env_registry.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/env/env_adapters.h"
#include "ding_worker/env/process/env_process_pool.h"
#include "ding_worker/env/wrapped_env.h"

namespace ding {
namespace {

// What the names of envs begin with that most programs do not link, because they need libraries of
// physics.
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
    "tools/train runs by itself where a config names one)";

// Tells whether there is an env of this type.
absl::Status CheckKnown(const std::string& type) {
  const absl::Status found = EnvRegistry().Find(type).status();
  const bool physics = std::any_of(std::begin(kPhysicsEnvs), std::end(kPhysicsEnvs),
                                   [&](const char* name) { return absl::StartsWith(type, name); });
  return absl::Status(found.code(), absl::StrCat(found.message(), physics ? kNeedsPhysics : ""));
}

std::string NameOf(const EnvConfig& config, int wrapper) {
  return absl::StrCat("env.wrapper[", wrapper, "] '", config.wrapper(wrapper).type(), "'");
}

bool WrapsAllEnvs(const EnvWrapperConfig& wrapper) {
  const absl::StatusOr<EnvWrapperCreator> create = EnvWrapperRegistry().Find(wrapper.type());
  return create.ok() && create->all_envs.create != nullptr;
}

// Returns the number of wrappers of single envs, which come first.
absl::StatusOr<int> CountOfOneEnvWrappers(const EnvConfig& config) {
  int count = 0;
  while (count < config.wrapper_size() && !WrapsAllEnvs(config.wrapper(count))) ++count;
  for (int i = count + 1; i < config.wrapper_size(); ++i) {
    if (WrapsAllEnvs(config.wrapper(i))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(config, i), " stands behind ", NameOf(config, count),
                     ", which works on all envs at once: expected it before"));
  }
  return count;
}

// The config of the env as it is built for its spaces only.
EnvConfig AsProbe(EnvConfig env) {
  EnvUse& use = *env.mutable_use();
  use.set_role("probe");
  use.set_number(use.probe_number());
  use.set_pictures(false);
  return env;
}

// The manager for these envs, whose wrappers are those of single envs.
absl::StatusOr<std::unique_ptr<EnvManager>> CreateUnwrapped(const EnvConfig& env,
                                                            const EnvManagerConfig& manager,
                                                            int env_num, const Clock* clock) {
  const bool in_processes =
      !manager.has_type() || manager.type() == "subprocess" || manager.type() == "async_subprocess";
  if (EnvGroupRegistry().Find(env.type()).ok() && in_processes) {
    return EnvGroupRegistry().Create(env, manager, env_num);
  }
  std::vector<EnvFactory> factories;
  for (int i = 0; i < env_num; ++i) {
    EnvConfig one = env;
    one.mutable_use()->set_number(env.use().number() + i);
    factories.emplace_back([one] { return create_env(InEnvProbe() ? AsProbe(one) : one); });
  }
  return create_env_manager(manager, std::move(factories), clock);
}

EnvUse UseOf(const EnvsUse& use, const EnvConfig& env) {
  const bool films =
      !use.video_folder.empty() &&
      std::any_of(env.wrapper().begin(), env.wrapper().end(),
                  [](const auto& wrapper) { return wrapper.type() == "record_video"; });
  EnvUse result;
  result.set_role(use.evaluates ? "evaluator" : "collector");
  result.set_number(use.first_number);
  result.set_probe_number(use.probe_number);
  result.set_pictures(use.pictures || films);
  return result;
}

}  // namespace

WrapperStackFactory WrappersOf(const EnvConfig& config) {
  if (config.wrapper().empty()) return nullptr;
  return [config](const EnvSpec& inner) -> absl::StatusOr<WrapperStack> {
    if (inner.players > 1) {
      return absl::InvalidArgumentError(absl::StrCat("env '", inner.name, "' is a game of ",
                                                     inner.players,
                                                     " players, which takes no wrapper"));
    }
    std::vector<std::unique_ptr<EnvWrapper>> wrappers;
    for (int i = 0; i < config.wrapper_size(); ++i) {
      const EnvWrapperConfig& wrapper = config.wrapper(i);
      const std::string where = NameOf(config, i);
      const absl::StatusOr<EnvWrapperCreator> create = EnvWrapperRegistry().Find(wrapper.type());
      if (!create.ok()) return Annotate(create.status(), where);
      if (create->one_env.create == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, " is for all envs of a manager, expected one for a single env"));
      }
      const EnvSpec& inside = wrappers.empty() ? inner : wrappers.back()->spec();
      absl::StatusOr<std::unique_ptr<EnvWrapper>> made = CallFactory(
          "env wrapper", wrapper.type(), [&] { return create->one_env(wrapper, inside); });
      if (!made.ok()) return Annotate(made.status(), where);
      const auto clips = std::find_if(wrappers.begin(), wrappers.end(), [](const auto& other) {
        return other->changes().clips_to_bounds;
      });
      if ((*made)->changes().maps_to_bounds && clips != wrappers.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            where, " stands behind ", NameOf(config, static_cast<int>(clips - wrappers.begin())),
            ", which takes actions of nearly any size and would have them mapped to "
            "that size: expected it before"));
      }
      wrappers.push_back(*std::move(made));
    }
    return WrapperStack::Create(inner, std::move(wrappers));
  };
}

absl::StatusOr<std::unique_ptr<Env>> create_env(const EnvConfig& config) {
  if (config.type().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("env: type is missing; this program has: ",
                                                   absl::StrJoin(EnvRegistry().Names(), ", ")));
  }
  DING_RETURN_IF_ERROR(CheckKnown(config.type()));
  DING_ASSIGN_OR_RETURN(std::unique_ptr<Env> env, EnvRegistry().Create(config));
  // Python envs, which have managers of their own, see to their bounds themselves.
  if (config.has_out_of_bounds() && !EnvGroupRegistry().Find(config.type()).ok()) {
    DING_RETURN_IF_ERROR(ValidateEnvSpec(env->spec()));
    env = MakeBoundedEnv(std::move(env), static_cast<OutOfBounds>(config.out_of_bounds()));
  }
  if (!config.reward_weights().empty()) {
    DING_ASSIGN_OR_RETURN(env, MakeWeightedReward(std::move(env), {config.reward_weights().begin(),
                                                                   config.reward_weights().end()}));
  }
  const WrapperStackFactory wrappers = WrappersOf(config);
  return wrappers ? MakeWrappedEnv(std::move(env), wrappers) : std::move(env);
}

absl::StatusOr<std::unique_ptr<EnvManager>> create_envs(const EnvConfig& env,
                                                        const EnvManagerConfig& manager,
                                                        int env_num, const Clock* clock,
                                                        const EnvsUse& use) {
  DING_ASSIGN_OR_RETURN(const int first, CountOfOneEnvWrappers(env));
  EnvConfig inside = env;
  *inside.mutable_use() = UseOf(use, env);
  if (use.probes) inside = AsProbe(std::move(inside));
  inside.mutable_wrapper()->DeleteSubrange(first, env.wrapper_size() - first);
  DING_ASSIGN_OR_RETURN(std::unique_ptr<EnvManager> envs,
                        CreateUnwrapped(inside, manager, env_num, clock));
  for (int i = first; i < env.wrapper_size(); ++i) {
    if (envs->env_spec().players > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(NameOf(env, i), ": env '", envs->env_spec().name, "' is a game of ",
                       envs->env_spec().players, " players, which takes no wrapper"));
    }
    DING_ASSIGN_OR_RETURN(const EnvWrapperCreator create,
                          EnvWrapperRegistry().Find(env.wrapper(i).type()));
    absl::StatusOr<std::unique_ptr<EnvManager>> made =
        CallFactory("env wrapper", env.wrapper(i).type(),
                    [&] { return create.all_envs(env.wrapper(i), use, std::move(envs)); });
    if (!made.ok()) return Annotate(made.status(), NameOf(env, i));
    envs = *std::move(made);
  }
  return envs;
}

}  // namespace ding
