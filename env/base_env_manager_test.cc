#include "ding_worker/env/base_env_manager.h"

#include <utility>
#include <vector>

#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager_core.h"
#include "ding_worker/env/testing/env_manager_conformance.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

EnvManagerConformanceCase Base() {
  EnvManagerConformanceCase base;
  base.name = "Base";
  base.create = [](EnvManagerCore::Options options, int /*wait_num*/,
                   std::vector<EnvFactory> factories) {
    return BaseEnvManager::Create(std::move(options), std::move(factories));
  };
  base.one_by_one = true;
  return base;
}

INSTANTIATE_TEST_SUITE_P(InThread, EnvManagerConformance, testing::Values(Base()),
                         EnvManagerConformanceName);
INSTANTIATE_TEST_SUITE_P(InThread, EnvManagerStateConformance, testing::Values(Base()),
                         EnvManagerConformanceName);

}  // namespace
}  // namespace ding
