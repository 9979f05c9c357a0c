// The surroundings of a serial collector or evaluator in its tests: fake envs, a fake policy, and
// dependencies whose clock stands still and whose sink records the metrics. Also saves, loads and
// compares what they have collected.
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

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/testing/fake_env_manager.h"
#include "ding_worker/collector/testing/fake_policy.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/metrics/testing/recording_sink.h"
#include "ding_worker/policy/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {

struct SerialParts {
  // `name` is the name of the component, the first part of its metric tags.
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

  // Saves the envs, the policy and this collector.
  template <typename T>
  StateDict Save(const T& collector) const {
    StateDict state;
    ScopedStateWriter of_envs(&state, "envs");
    EXPECT_THAT(envs.SaveState(&of_envs), IsOk());
    EXPECT_THAT(policy.SaveState(&state), IsOk());
    ScopedStateWriter of_collector(&state, "collector");
    EXPECT_THAT(collector.SaveState(&of_collector), IsOk());
    return state;
  }
  template <typename T>
  void Load(StateDict* state, T* collector) {
    ScopedStateReader of_envs(state, "envs");
    std::vector<int> restarted;
    EXPECT_THAT(envs.LoadState(&of_envs, &restarted), IsOk());
    EXPECT_THAT(policy.LoadState(state), IsOk());
    ScopedStateReader of_collector(state, "collector");
    EXPECT_THAT(collector->LoadState(&of_collector), IsOk());
  }

  SimulatedClock clock;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  FakeEnvManager envs;
  FakePolicy policy;
};

inline void ExpectSameBytes(const Batch& a, const Batch& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.spec(), b.spec());
  for (int i = 0; i < a.spec().size(); ++i) {
    EXPECT_EQ(a.tensor(i).bytes(), b.tensor(i).bytes()) << a.spec().field(i).name;
  }
}

// Expects the same rows, last observations and segments.
inline void ExpectSameData(const SegmentBatch& a, const SegmentBatch& b) {
  ExpectSameBytes(a.rows, b.rows);
  ExpectSameBytes(a.final_obs, b.final_obs);
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (size_t i = 0; i < a.segments.size(); ++i) {
    EXPECT_EQ(a.segments[i].stream, b.segments[i].stream);
    EXPECT_EQ(a.segments[i].first_step, b.segments[i].first_step);
    EXPECT_EQ(a.segments[i].begin, b.segments[i].begin);
    EXPECT_EQ(a.segments[i].length, b.segments[i].length);
    EXPECT_EQ(a.segments[i].end, b.segments[i].end);
  }
}

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_TESTING_SERIAL_PARTS_H_
