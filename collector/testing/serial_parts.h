// The surroundings of a serial collector or evaluator in its tests: fake envs, a fake policy, and
// dependencies whose clock stands still and whose sink records the metrics.
//
// Ownership: owns all parts; what a test makes from them must not outlive them.
// Threads:   thread-compatible.
//
// Example:
//   struct Fixture : SerialParts {
//     Fixture() : SerialParts({}, {}, "c") {}
//     std::unique_ptr<SampleSerialCollector> collector = Make<SampleSerialCollector>({});
//   };
#ifndef DING_WORKER_COLLECTOR_TESTING_SERIAL_PARTS_H_
#define DING_WORKER_COLLECTOR_TESTING_SERIAL_PARTS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {

struct SerialParts {
  // `name` is that of the component, the first part of its metric tags.
  SerialParts(FakeEnvManager::Options env_options, const CollectAttributes& attributes,
              absl::string_view name)
      : envs(std::move(env_options)), policy(attributes) {
    deps.metrics = sink;
    deps.clock = &clock;
    deps.name = std::string(name);
  }

  // Makes a collector or evaluator of type T from the parts. The test fails, and ends, if the
  // options do not fit.
  template <typename T>
  std::unique_ptr<T> Make(typename T::Options options) {
    absl::StatusOr<std::unique_ptr<T>> made = T::Create(std::move(options), &envs, &policy, deps);
    EXPECT_THAT(made, IsOk());
    return *std::move(made);
  }

  SimulatedClock clock;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  FakeEnvManager envs;
  FakePolicy policy;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_TESTING_SERIAL_PARTS_H_
