// The env manager that steps its envs one after the other in the caller's thread. It is the fastest
// one for envs whose step takes microseconds.
//
// If all envs are a VectorEnv of one class, one call of VectorEnv::StepAll() steps all of them. Other
// envs are stepped in turn: when Step() fails, those after the failing one were not stepped, and are
// still in kRun. This manager cannot survive the crash of an env or interrupt an env that hangs; the
// managers that run envs in processes of their own can. No env is in kInit or kReset between two
// calls.
//
// Failures, seeds, abnormal steps: EnvManagerCore. Ownership, threads: as EnvManager.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto manager, BaseEnvManager::Create({}, factories));
//   DING_RETURN_IF_ERROR(manager->Seed(0, /*dynamic=*/true));
//   DING_RETURN_IF_ERROR(manager->Launch());
#ifndef DING_WORKER_ENV_BASE_ENV_MANAGER_H_
#define DING_WORKER_ENV_BASE_ENV_MANAGER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/vector_env.h"

namespace ding {

class BaseEnvManager : public EnvManagerCore {
 public:
  // Makes one env per factory; at least one is required. Builds the first env to get its spec.
  //   kInvalidArgument  invalid options (the error lists all problems), no factories, invalid spec
  //   other             the error of the factory
  static absl::StatusOr<std::unique_ptr<BaseEnvManager>> Create(Options options,
                                                                std::vector<EnvFactory> factories);

 private:
  BaseEnvManager(Options options, Blocks blocks, std::unique_ptr<LocalEnvs> envs);

  absl::Status StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions,
                        absl::Span<const int>* answered) override;
  absl::Status ResetEnvs(absl::Span<const int> env_ids) override;
  absl::StatusOr<Image> RenderEnv(int env_id) override;
  absl::Status SaveEnv(int env_id, StateWriter* writer) const override;
  absl::Status LoadEnv(int env_id, StateReader* reader) override;
  void EndEnvs() override;

  // Whether these are all envs in order, which can be stepped at once. Sets vector_envs_.
  bool IsStepOfAll(absl::Span<const int> env_ids);
  // Steps vector_envs_. Returns false if no env was stepped.
  absl::StatusOr<bool> StepAll(const ColumnsView& actions);
  // Must be called after each call of an env that may have built it.
  void NoteBuild(int env_id) {
    vector_envs_known_ &= envs_->host(env_id).builds() == builds_[static_cast<size_t>(env_id)];
  }

  const std::unique_ptr<LocalEnvs> envs_;
  std::vector<VectorEnv*> vector_envs_;  // all envs, if they are a VectorEnv of one class, or none
  std::vector<int64_t> builds_;          // EnvHost::builds() when vector_envs_ was set
  bool vector_envs_known_ = false;
  StepResult result_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BASE_ENV_MANAGER_H_
