// Envs in this process and the rows that they write to, for managers that call envs in the caller's
// thread or in threads of their own.
//
// Ownership: owns the envs and their rows.
// Threads:   thread-compatible per env: calls of different envs may run at once.
#ifndef DING_WORKER_ENV_LOCAL_ENVS_H_
#define DING_WORKER_ENV_LOCAL_ENVS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"

namespace ding {

class LocalEnvs {
 public:
  // Makes one env per factory. Builds the first env to get its spec.
  //   kInvalidArgument  no factories, invalid spec
  //   other             the error of the factory
  static absl::StatusOr<std::unique_ptr<LocalEnvs>> Create(const EnvRetryOptions& options,
                                                           std::vector<EnvFactory> factories);

  LocalEnvs(const LocalEnvs&) = delete;
  LocalEnvs& operator=(const LocalEnvs&) = delete;

  const EnvSpec& spec() const { return spec_; }
  int size() const { return static_cast<int>(hosts_.size()); }
  // Row i holds the last observation of env i, at first zeros.
  MutableColumnsView rows() const { return rows_.view(); }
  EnvHost& host(int env_id) { return hosts_[static_cast<size_t>(env_id)]; }
  absl::Span<EnvHost> hosts() { return absl::MakeSpan(hosts_); }
  // Destroys all envs; a reset builds them again.
  void End();

 private:
  LocalEnvs(EnvRetryOptions options, EnvSpec spec, BatchBuilder rows)
      : options_(std::move(options)), spec_(std::move(spec)), rows_(std::move(rows)) {}

  const EnvRetryOptions options_;
  const EnvSpec spec_;
  const BatchBuilder rows_;
  std::vector<EnvHost> hosts_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_LOCAL_ENVS_H_
