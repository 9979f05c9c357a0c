#include "ding_worker/env/subprocess_env_manager.h"

#include <string>
#include <utility>
#include <vector>

#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager_conformance.h"
#include "ding_worker/env/env_manager_core.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

EnvManagerConformanceCase Processes(std::string name, int envs_per_process) {
  EnvManagerConformanceCase processes;
  processes.name = std::move(name);
  processes.create = [envs_per_process](EnvManagerCore::Options options,
                                        std::vector<EnvFactory> factories) {
    SubprocessEnvManagerOptions all;
    static_cast<EnvManagerCore::Options&>(all) = std::move(options);
    all.envs_per_process = envs_per_process;
    return CreateSubprocessEnvManager(all, std::move(factories));
  };
  processes.in_this_process = false;
  return processes;
}

const EnvManagerConformanceCase kCases[] = {
    Processes("OneEach", 1), Processes("Pairs", 2), Processes("OnePerCore", 0)};

INSTANTIATE_TEST_SUITE_P(Processes, EnvManagerConformance, testing::ValuesIn(kCases),
                         EnvManagerConformanceName);
INSTANTIATE_TEST_SUITE_P(Processes, EnvManagerStateConformance, testing::ValuesIn(kCases),
                         EnvManagerConformanceName);

}  // namespace
}  // namespace ding
