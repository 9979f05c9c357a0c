#include "ding_worker/env/local_env_manager.h"

#include <utility>

#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<LocalEnvManager::Parts> LocalEnvManager::Parts::Create(
    std::vector<EnvFactory> factories) {
  if (factories.empty()) return absl::InvalidArgumentError("env manager: there are no envs");
  absl::StatusOr<std::unique_ptr<Env>> first = BuildEnv(factories[0]);
  if (!first.ok()) return Annotate(first.status(), "env 0");
  EnvSpec spec = (*first)->spec();
  const int env_num = static_cast<int>(factories.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder rows, ZeroedRows(spec.observation, env_num));
  DING_ASSIGN_OR_RETURN(Blocks blocks, Blocks::Create(spec, env_num));
  return Parts{std::move(factories), *std::move(first), std::move(spec), std::move(rows),
               std::move(blocks)};
}

LocalEnvManager::LocalEnvManager(Options options, Parts parts)
    : EnvManagerCore(std::move(options), std::move(parts.spec), parts.rows.view(),
                     std::move(parts.blocks)),
      rows_block_(std::move(parts.rows)) {
  hosts_.reserve(parts.factories.size());
  for (EnvFactory& factory : parts.factories) {
    hosts_.emplace_back(std::move(factory), &env_spec(), &this->options());
  }
  hosts_[0].Adopt(std::move(parts.first));
}

}  // namespace ding
