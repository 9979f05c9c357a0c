// Helpers of tests of parallel collectors: settings of the fake policy, and the rows sent to the fake link.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_TESTING_SENT_ROWS_H_
#define DING_WORKER_COLLECTOR_TESTING_SENT_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>

#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/testing/fake_link.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"
#include "gtest/gtest.h"

namespace ding {

// Returns a model for FakePolicy, which does not read it.
inline std::shared_ptr<StateReader> AModel() { return std::make_shared<StateDict>(); }

inline CollectAttributes Samples(int64_t n_sample) {
  CollectAttributes attributes;
  attributes.n_sample = n_sample;
  return attributes;
}

inline CollectAttributes Episodes() {
  CollectAttributes attributes;
  attributes.n_episode = 1;
  return attributes;
}

// The observation of FakeEnvManager, which identifies a row: {env, episode, step}, in a game
// {env + 1000 * seat, episode, step}.
using RowName = std::array<float, 3>;

// Returns all sent rows and checks their segments.
inline std::multiset<RowName> RowsSent(const FakeLink& link) {
  std::multiset<RowName> rows;
  for (const FakeLink::Sent& sent : link.sent()) {
    EXPECT_THAT(ValidateSegments(sent.data), IsOk());
    const absl::Span<const float> obs = sent.data.rows.column<float>("obs");
    for (size_t i = 0; i + 2 < obs.size(); i += 3) rows.insert({obs[i], obs[i + 1], obs[i + 2]});
  }
  return rows;
}

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_TESTING_SENT_ROWS_H_
