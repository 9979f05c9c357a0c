#include "ding_worker/env/async_thread_env_manager.h"

#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env_manager_conformance.h"
#include "ding_worker/env/env_manager_core.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

EnvManagerConformanceCase Threads(std::string name, absl::Duration inline_below) {
  EnvManagerConformanceCase threads;
  threads.name = std::move(name);
  threads.create = [inline_below](EnvManagerCore::Options options,
                                  std::vector<EnvFactory> factories) {
    AsyncThreadEnvManagerOptions all;
    static_cast<EnvManagerCore::Options&>(all) = std::move(options);
    all.num_threads = 2;
    all.inline_below = inline_below;
    return CreateAsyncThreadEnvManager(all, std::move(factories));
  };
  return threads;
}

const EnvManagerConformanceCase kCases[] = {
    Threads("ByThreads", absl::ZeroDuration()),
    Threads("InlineAfterTheFirst", absl::Hours(1)),
    Threads("AsItComes", absl::Microseconds(25)),
};

INSTANTIATE_TEST_SUITE_P(Threads, EnvManagerConformance, testing::ValuesIn(kCases),
                         EnvManagerConformanceName);
INSTANTIATE_TEST_SUITE_P(Threads, EnvManagerStateConformance, testing::ValuesIn(kCases),
                         EnvManagerConformanceName);

}  // namespace
}  // namespace ding
