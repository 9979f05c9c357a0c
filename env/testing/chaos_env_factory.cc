// Registers "chaos".
#include <memory>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/testing/chaos.pb.h"
#include "ding_worker/env/testing/chaos_env.h"

namespace ding {
namespace {

absl::StatusOr<std::unique_ptr<Env>> Create(const EnvConfig& /*config*/,
                                            const ChaosConfig& params) {
  return CreateChaosEnv(params);
}

DING_REGISTER(EnvRegistry(), "chaos", Create,
              "crashes, hangs, takes memory or burns time at a given step, for tests");

}  // namespace
}  // namespace ding
