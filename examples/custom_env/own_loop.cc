// Trains DQN by a loop of one's own instead of the program //worker:serial.
#include <cstdlib>
#include <iostream>
#include <memory>

#include "absl/status/status.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_serial_commander.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/worker/serial_registry.h"

namespace {

absl::Status TrainPoint() {
  ding::EnvConfig env;
  env.set_type("Point");
  DING_ASSIGN_OR_RETURN(auto envs, ding::create_envs(env, {}, /*env_num=*/8, ding::Clock::Real()));
  ding::PolicyConfig dqn;
  dqn.set_type("dqn");
  dqn.set_n_sample(32);
  const ding::EnvSpec& spec = envs->env_spec();
  DING_ASSIGN_OR_RETURN(auto policy, ding::create_policy(dqn, {spec.observation, spec.action}));
  DING_ASSIGN_OR_RETURN(auto collector,
                        ding::create_serial_collector({}, envs.get(), policy->collect_mode(), {}));
  DING_ASSIGN_OR_RETURN(auto buffer, ding::create_buffer({}, {}));
  DING_ASSIGN_OR_RETURN(auto learner, ding::create_learner({}, policy->learn_mode(), {}));
  ding::BaseSerialCommander commander(learner.get(), collector.get(), policy->command_mode());

  while (collector->envstep() < 20000) {
    ding::CollectOptions options;
    options.policy_settings = commander.Step();  // epsilon, by the env steps so far
    DING_ASSIGN_OR_RETURN(const ding::SegmentBatch rows, collector->Collect(options));
    DING_RETURN_IF_ERROR(buffer->Push(rows, collector->envstep()));
    for (int i = 0; i < 8 && buffer->count() >= 64; ++i) {
      DING_ASSIGN_OR_RETURN(const ding::Batch batch, buffer->Sample(64, learner->train_iter()));
      DING_RETURN_IF_ERROR(learner->Train(batch, collector->envstep()));
    }
  }
  std::cout << "mean return of the last episodes: " << collector->recent_return().value_or(0)
            << "\n";
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status status = TrainPoint();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
