// The env manager whose envs run beside the caller, in threads or processes (EnvWorkers).
//
//   wait_num 0, all     Step() returns when every env that was stepped has answered and every
//                       episode that ended has begun anew: results are those of BaseEnvManager, bit
//                       by bit, whatever the order in which envs answered.
//   wait_num n          Step() asks its envs and returns when n of those that are busy have
//                       answered (all, if fewer are): with a step, which then stands in Timesteps,
//                       or by having begun the next episode. The others answer in later calls. Which
//                       ones answer together depends on time: such runs do not repeat.
//
// After a Step that failed, all envs that answered in that call are in kNeedReset, the failing one
// in kError; those that are busy go on.
//
// SaveState() does not wait: an env that is busy is one that cannot save itself; it begins a new
// episode on load.
//
// Failures, seeds, abnormal steps: EnvManagerCore. Ownership, threads: as EnvManager.
#ifndef DING_WORKER_ENV_ASYNC_ENV_MANAGER_H_
#define DING_WORKER_ENV_ASYNC_ENV_MANAGER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/env_workers.h"

namespace ding {

class AsyncEnvManager : public EnvManagerCore {
 public:
  struct Options : EnvManagerCore::Options {
    // Envs to wait for in a Step(), 0: all.
    int wait_num = 0;
  };

  // OK if the options fit `env_num` envs; else all that is wrong, `problems` of others included.
  static absl::Status Check(const Options& options, int env_num, std::vector<std::string> problems);

  //   kInvalidArgument  options, all problems at once
  static absl::StatusOr<std::unique_ptr<AsyncEnvManager>> Create(
      Options options, std::unique_ptr<EnvWorkers> workers);
  ~AsyncEnvManager() override { workers_->End(); }

 private:
  AsyncEnvManager(Options options, Blocks blocks, std::unique_ptr<EnvWorkers> workers);

  absl::Status StepEnvs(absl::Span<const int> env_ids, const ColumnsView& actions,
                        absl::Span<const int>* answered) override;
  absl::Status ResetEnvs(absl::Span<const int> env_ids) override;
  absl::Status BeginResets(absl::Span<const int> env_ids) override;
  absl::Status Settle(absl::Span<const int> env_ids) override;
  absl::StatusOr<Image> RenderEnv(int env_id) override;
  absl::Status SaveEnv(int env_id, StateWriter* writer) const override;
  absl::Status LoadEnv(int env_id, StateReader* reader) override;
  void EndEnvs() override;

  bool waits_for_all() const { return wait_num_ == 0 || wait_num_ >= env_num(); }
  void AskResets(absl::Span<const int> env_ids);
  // Waits until none of these is busy.
  absl::Status WaitFor(absl::Span<const int> env_ids);
  // Of the envs in answered_: notes what began, keeps what was stepped.
  absl::Status TakeResets();
  absl::Status AccountSteps(absl::Span<const int> env_ids);

  const int wait_num_;
  const std::unique_ptr<EnvWorkers> workers_;
  int busy_ = 0;                  // asked, and not yet taken from answered_
  std::vector<int> answered_;     // by the workers, and not yet taken
  std::vector<int> stepped_;      // of the current Step()
  std::vector<uint8_t> awaited_;  // scratch of WaitFor(), per env
  std::vector<EpisodeStart> starts_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ASYNC_ENV_MANAGER_H_
