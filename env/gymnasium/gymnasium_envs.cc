#include "ding_worker/env/gymnasium/gymnasium_envs.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/async_env_manager.h"
#include "ding_worker/env/env_adapters.h"
#include "ding_worker/env/env_workers.h"
#include "ding_worker/env/gymnasium/python_program.h"
#include "ding_worker/env/process/env_process_pool.h"
#include "ding_worker/env/process/process_env_workers.h"
#include "ding_worker/env/subprocess_env_manager.h"
#include "ding_worker/env/wrapped_env.h"

namespace ding {
namespace {

// The one env of a process.
class GymnasiumEnv : public Env {
 public:
  explicit GymnasiumEnv(std::unique_ptr<EnvWorkers> workers) : workers_(std::move(workers)) {}
  ~GymnasiumEnv() override { workers_->End(); }

  const EnvSpec& spec() const override { return workers_->spec(); }

  absl::Status Reset(const EpisodeStart& start, const RowRef& obs) override {
    workers_->AskReset(0, start);
    DING_RETURN_IF_ERROR(Wait());
    DING_RETURN_IF_ERROR(workers_->answer(0).status);
    CopyRow(ColumnsView(workers_->rows()).row(0), obs);
    return absl::OkStatus();
  }

  absl::Status Step(const RowView& action, const RowRef& obs, StepResult* result) override {
    CopyRow(action, workers_->actions().row(0));
    workers_->AskStep(0);
    DING_RETURN_IF_ERROR(Wait());
    EnvAnswer& answer = workers_->answer(0);
    DING_RETURN_IF_ERROR(answer.status);
    // The process ended. A manager with retry_type RENEW builds the env anew.
    if (answer.result.abnormal && !answer.void_cause.ok()) return answer.void_cause;
    *result = answer.result;
    CopyRow(ColumnsView(workers_->rows()).row(0), obs);
    return absl::OkStatus();
  }

  absl::Status SaveState(StateWriter* writer) const override {
    return workers_->SaveState(0, writer);
  }
  absl::Status LoadState(StateReader* reader) override { return workers_->LoadState(0, reader); }
  absl::StatusOr<Image> Render() override { return workers_->Render(0); }

 private:
  absl::Status Wait() {
    answered_.clear();
    return workers_->Wait(1, &answered_);
  }

  const std::unique_ptr<EnvWorkers> workers_;
  std::vector<int> answered_;
};

absl::StatusOr<std::unique_ptr<EnvWorkers>> CreateWorkers(
    const SubprocessEnvManagerOptions& options, const GymnasiumConfig& config, int env_num,
    const EnvConfig& around, PythonInterface interface) {
  DING_RETURN_IF_ERROR(CheckSubprocessOptions(options, env_num));
  DING_ASSIGN_OR_RETURN(const PythonEnv env,
                        ProbePythonEnv(config, interface, around, options.connect_timeout));
  const bool waits_for_some = options.wait_num > 0 && options.wait_num < env_num;
  return CreateProcessEnvWorkers(PoolOptions(options), env.spec, env_num,
                                 RunPython(env, waits_for_some),
                                 static_cast<OutOfBounds>(around.out_of_bounds()));
}

absl::StatusOr<std::unique_ptr<EnvManager>> CreateManager(
    const SubprocessEnvManagerOptions& options, const GymnasiumConfig& config, int env_num,
    const WrapperStackFactory& wrappers, const EnvConfig& around, PythonInterface interface) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<EnvWorkers> workers,
                        CreateWorkers(options, config, env_num, around, interface));
  if (wrappers) {
    DING_ASSIGN_OR_RETURN(workers, WrapWorkers(std::move(workers), wrappers));
  }
  return AsyncEnvManager::Create(options, std::move(workers));
}

absl::StatusOr<std::unique_ptr<Env>> CreateOne(const GymnasiumConfig& config,
                                               const EnvConfig& around, PythonInterface interface) {
  DING_ASSIGN_OR_RETURN(std::unique_ptr<EnvWorkers> workers,
                        CreateWorkers({}, config, 1, around, interface));
  return std::make_unique<GymnasiumEnv>(std::move(workers));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EnvManager>> CreateGymnasiumEnvs(
    const SubprocessEnvManagerOptions& options, const GymnasiumConfig& config, int env_num,
    const WrapperStackFactory& wrappers, const EnvConfig& around) {
  return CreateManager(options, config, env_num, wrappers, around, PythonInterface::kGymnasium);
}

absl::StatusOr<std::unique_ptr<Env>> CreateGymnasiumEnv(const GymnasiumConfig& config,
                                                        const EnvConfig& around) {
  return CreateOne(config, around, PythonInterface::kGymnasium);
}

absl::StatusOr<std::vector<GoalReward>> SampleGymnasiumGoalRewards(
    const GymnasiumConfig& config, const WrapperStackFactory& wrappers, const EnvConfig& around) {
  DING_ASSIGN_OR_RETURN(const PythonEnv env,
                        ProbePythonEnv(config, PythonInterface::kGymnasium, around,
                                       SubprocessEnvManagerOptions().connect_timeout));
  std::vector<GoalReward> samples = env.goal_rewards;
  if (!wrappers) return samples;
  for (GoalReward& sample : samples) {
    // A wrapper that changes rewards does the same to their bounds.
    EnvSpec spec = env.spec;
    spec.reward_low = spec.reward_high = sample.reward;
    const absl::StatusOr<WrapperStack> stack = wrappers(spec);
    if (!stack.ok() || stack->spec().reward_low != stack->spec().reward_high) {
      return std::vector<GoalReward>();
    }
    sample.reward = static_cast<float>(stack->spec().reward_low);
  }
  return samples;
}

absl::StatusOr<std::unique_ptr<EnvManager>> CreatePettingZooEnvs(
    const SubprocessEnvManagerOptions& options, const GymnasiumConfig& config, int env_num,
    const WrapperStackFactory& wrappers, const EnvConfig& around) {
  return CreateManager(options, config, env_num, wrappers, around, PythonInterface::kPettingZoo);
}

absl::StatusOr<std::unique_ptr<Env>> CreatePettingZooEnv(const GymnasiumConfig& config,
                                                         const EnvConfig& around) {
  return CreateOne(config, around, PythonInterface::kPettingZoo);
}

}  // namespace ding
