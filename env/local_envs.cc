#include "ding_worker/env/local_envs.h"

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::StatusOr<std::unique_ptr<LocalEnvs>> LocalEnvs::Create(const EnvRetryOptions& options,
                                                             std::vector<EnvFactory> factories) {
  if (factories.empty())
    return absl::InvalidArgumentError(
        "env manager: there are no env factories, expected at least one");
  absl::StatusOr<std::unique_ptr<Env>> first = BuildEnv(factories[0]);
  if (!first.ok()) return Annotate(first.status(), "env 0");
  EnvSpec spec = (*first)->spec();
  DING_ASSIGN_OR_RETURN(BatchBuilder rows, ZeroedRows(spec.observation, factories.size()));
  auto envs = absl::WrapUnique(new LocalEnvs(options, std::move(spec), std::move(rows)));
  envs->hosts_.reserve(factories.size());
  for (EnvFactory& factory : factories) {
    envs->hosts_.emplace_back(std::move(factory), &envs->spec_, &envs->options_);
  }
  envs->hosts_[0].Adopt(*std::move(first));
  return envs;
}

void LocalEnvs::End() {
  for (EnvHost& host : hosts_) host.End();
}

}  // namespace ding
