// What managers have in common whose envs live in this process: the rows, the envs, and all that is
// done to one env at a time.
//
// Ownership, threads: as EnvManager.
#ifndef DING_WORKER_ENV_LOCAL_ENV_MANAGER_H_
#define DING_WORKER_ENV_LOCAL_ENV_MANAGER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager_core.h"

namespace ding {

class LocalEnvManager : public EnvManagerCore {
 protected:
  // What it is made of.
  struct Parts {
    // Builds the first env, to know the spec.
    //   kInvalidArgument  no factories, a spec that is not valid
    //   other             what the factory said
    static absl::StatusOr<Parts> Create(std::vector<EnvFactory> factories);

    std::vector<EnvFactory> factories;
    std::unique_ptr<Env> first;
    EnvSpec spec;
    BatchBuilder rows;
    Blocks blocks;
  };

  LocalEnvManager(Options options, Parts parts);

  EnvHost& host(int env_id) { return hosts_[static_cast<size_t>(env_id)]; }
  const EnvHost& host(int env_id) const { return hosts_[static_cast<size_t>(env_id)]; }

  absl::StatusOr<Image> RenderEnv(int env_id) override { return host(env_id).Render(); }
  absl::Status SaveEnv(int env_id, StateWriter* writer) const override {
    return host(env_id).SaveState(writer);
  }
  absl::Status LoadEnv(int env_id, StateReader* reader) override {
    return host(env_id).LoadState(reader);
  }
  void EndEnvs() override {
    for (EnvHost& host : hosts_) host.End();
  }

 private:
  const BatchBuilder rows_block_;
  std::vector<EnvHost> hosts_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_LOCAL_ENV_MANAGER_H_
