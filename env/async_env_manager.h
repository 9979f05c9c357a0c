// The env manager whose envs run in threads or processes beside the caller (EnvWorkers).
//
//   wait_num 0 (all)    Step() returns when every env has finished its step and every env whose
//                       episode ended has begun the next one. The results are bit for bit those of
//                       BaseEnvManager, in whatever order the envs finish.
//   wait_num n          Step() starts the steps and returns when n of the busy envs have answered,
//                       or all of them if fewer are busy. An env answers with a step, which is then
//                       in Timesteps, or with the beginning of its next episode. The others answer
//                       in later calls. Which envs answer together depends on timing, so such runs
//                       are not repeatable.
//
// After a failed Step(), the failing env is in kError, and the other envs that answered in that
// call are in kNeedReset. Envs that are still busy continue.
//
// SaveState() does not wait: a busy env begins a new episode after a load, like an env that cannot
// save its state.
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
    // The number of envs that Step() waits for; 0: all.
    int wait_num = 0;
  };

  // kInvalidArgument with all problems of the options for `env_num` envs, and with the caller's
  // `problems`.
  static absl::Status Check(const Options& options, int env_num, std::vector<std::string> problems);

  //   kInvalidArgument  invalid options; the error lists all problems
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
  // Waits until none of these envs is busy.
  absl::Status WaitFor(absl::Span<const int> env_ids);
  // Notes the resets among answered_ and removes them, so that only steps are left.
  absl::Status TakeResets();
  absl::Status AccountSteps(absl::Span<const int> env_ids);

  const int wait_num_;
  const std::unique_ptr<EnvWorkers> workers_;
  int busy_ = 0;                  // envs that were asked and whose answer was not yet taken
  std::vector<int> answered_;     // envs that have answered, not yet taken
  std::vector<int> stepped_;      // envs that answered the current Step() with a step
  std::vector<uint8_t> awaited_;  // scratch space of WaitFor(), one element per env
  std::vector<EpisodeStart> starts_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_ASYNC_ENV_MANAGER_H_
