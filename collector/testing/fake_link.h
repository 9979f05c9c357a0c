// A link for tests: the test publishes policies, and the link keeps the sent data.
//
// Threads: thread-safe, except the functions that a test sets: set them before use; they are called
// on the
//          collector's thread.
#ifndef DING_WORKER_COLLECTOR_TESTING_FAKE_LINK_H_
#define DING_WORKER_COLLECTOR_TESTING_FAKE_LINK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"
#include "gtest/gtest.h"

namespace ding {

class FakeLink : public CollectorLink {
 public:
  struct Sent {
    SegmentBatch data;
    CollectorProgress progress;
  };

  // The methods of the same name call these first and return their errors.
  std::function<absl::Status()> on_send_data;
  std::function<absl::Status()> on_get_policy_update;

  // Publishes the next version of the policy of `player`.
  void Publish(int64_t train_iter, std::shared_ptr<StateReader> model, int player = 0) {
    const MutexLock lock(&mutex_);
    PolicyUpdate& newest = newest_[player];
    newest.version += 1;
    newest.train_iter = train_iter;
    newest.model = std::move(model);
    published_.SignalAll();
  }
  std::vector<Sent> sent() const {
    const MutexLock lock(&mutex_);
    return sent_;
  }
  int64_t looks() const {
    const MutexLock lock(&mutex_);
    return looks_;
  }

  absl::Status SendData(const SegmentBatch& data, const CollectorProgress& progress) override {
    if (on_send_data) {
      if (absl::Status status = on_send_data(); !status.ok()) return status;
    }
    const MutexLock lock(&mutex_);
    sent_.push_back({data, progress});
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<PolicyUpdate>> GetPolicyUpdate(int player, uint64_t version,
                                                              absl::Duration timeout) override {
    if (on_get_policy_update) {
      if (absl::Status status = on_get_policy_update(); !status.ok()) return status;
    }
    const MutexLock lock(&mutex_);
    ++looks_;
    if (newest_[player].version <= version && timeout > absl::ZeroDuration()) {
      published_.WaitFor(&mutex_, timeout);
    }
    if (newest_[player].version <= version) return std::nullopt;
    return newest_[player];
  }

 private:
  mutable Mutex mutex_;
  CondVar published_;
  std::map<int, PolicyUpdate> newest_ ABSL_GUARDED_BY(mutex_);
  std::vector<Sent> sent_ ABSL_GUARDED_BY(mutex_);
  int64_t looks_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Helpers of these tests: settings of the fake policy, and the rows sent to the fake link.

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

#endif  // DING_WORKER_COLLECTOR_TESTING_FAKE_LINK_H_
