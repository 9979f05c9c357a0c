// The env manager that steps its envs one after the other, in the caller's thread: the fastest one
// for envs that take microseconds.
//
// A Step that fails has not stepped the envs behind the failing one: they are still in kRun. It
// cannot survive a crash of an env or interrupt one that hangs; only managers that run envs in
// processes of their own can. kInit and kReset are never seen between two calls.
//
// Failures, seeds, abnormal steps: EnvManagerCore. Ownership, threads: as EnvManager.
//
// Example:
//   DING_ASSIGN_OR_RETURN(auto manager, BaseEnvManager::Create({}, factories));
//   DING_RETURN_IF_ERROR(manager->Seed(0, /*dynamic=*/true));
//   DING_RETURN_IF_ERROR(manager->Launch());
#ifndef DING_WORKER_ENV_BASE_ENV_MANAGER_H_
#define DING_WORKER_ENV_BASE_ENV_MANAGER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/local_envs.h"

namespace ding {

class BaseEnvManager : public EnvManagerCore {
 public:
  // One env per factory, at least one. Builds the first env, to know the spec.
  //   kInvalidArgument  options (all problems at once), no factories, a spec that is not valid
  //   other             what the factory said
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

  const std::unique_ptr<LocalEnvs> envs_;
  StepResult result_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_BASE_ENV_MANAGER_H_
