// The envs of testdata/ for tests and benchmarks, and how to step them.
//
// Threads: as EnvManager.
#ifndef DING_WORKER_ENV_GYMNASIUM_TESTING_ENVS_H_
#define DING_WORKER_ENV_GYMNASIUM_TESTING_ENVS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/gymnasium/gymnasium.pb.h"
#include "ding_worker/env/subprocess_env_manager.h"

namespace ding {

// The config of a class of testdata/, such as "cartpole:CartPole".
inline GymnasiumConfig TestEnvConfig(absl::string_view entry_point, absl::string_view kwargs = "") {
  GymnasiumConfig config;
  config.set_entry_point(std::string(entry_point));
  config.set_kwargs(std::string(kwargs));
  config.set_python("/usr/bin/python3");
  config.add_python_path("env/gymnasium/testdata");
  return config;
}

// The config of a Trouble of testdata/sample_envs.py.
inline GymnasiumConfig TroubleConfig(absl::string_view deed, absl::string_view where = "") {
  return TestEnvConfig("sample_envs:Trouble",
                       absl::StrCat("{\"deed\": \"", deed, "\", \"where\": \"", where, "\"}"));
}

inline SubprocessEnvManagerOptions TwoPerProcess() {
  SubprocessEnvManagerOptions options;
  options.envs_per_process = 2;
  options.retry_waiting_time = absl::ZeroDuration();
  return options;
}

// Steps all ready envs with one discrete action each, or with the actions in `actions`.
inline absl::StatusOr<const Timesteps*> StepReady(EnvManager* manager,
                                                  std::vector<int64_t> actions = {}) {
  const ReadyObs ready = manager->ready_obs();
  if (actions.empty()) actions.resize(ready.env_ids.size());
  std::byte* const column = reinterpret_cast<std::byte*>(actions.data());
  const std::vector<int> env_ids(ready.env_ids.begin(), ready.env_ids.end());
  return manager->Step(env_ids, ColumnsView(manager->env_spec().action.get(), &column, 0,
                                            static_cast<int64_t>(env_ids.size())));
}

}  // namespace ding

#endif  // DING_WORKER_ENV_GYMNASIUM_TESTING_ENVS_H_
