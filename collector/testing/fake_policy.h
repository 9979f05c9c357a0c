// A policy that acts by counting, and notes what it was asked. Serves as collect and as eval mode.
//
// Its output is "action" (Discrete) and "logit" float32[2]; the n-th row that it fills in its life
// has action n % action_count and logit {env, n}.
//
// Threads: thread-compatible.
#ifndef DING_WORKER_COLLECTOR_TESTING_FAKE_POLICY_H_
#define DING_WORKER_COLLECTOR_TESTING_FAKE_POLICY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class FakePolicy : public CollectMode, public EvalMode {
 public:
  explicit FakePolicy(CollectAttributes attributes = {}, int64_t action_count = 4);
  // With an output of its own: first field an int64 action, the others are not written.
  FakePolicy(CollectAttributes attributes, SpecPtr output);

  const SpecPtr& output_spec() const override { return output_; }
  CollectAttributes attributes() const override { return attributes_; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status Reset(absl::Span<const int> env_ids) override;
  absl::StatusOr<SegmentBatch> GetTrainSample(SegmentBatch data) override;
  absl::Status LoadModel(StateReader* reader) override;
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

  // Called by Forward() with the env ids; what it returns is returned.
  std::function<absl::Status(absl::Span<const int>)> on_forward;
  // Called by LoadModel(); what it returns is returned.
  std::function<absl::Status(StateReader*)> on_load_model;
  // Called by GetTrainSample().
  std::function<void(SegmentBatch*)> on_train_sample;

  // What was asked.
  std::vector<std::vector<int>> resets;
  NamedValues last_settings;
  int64_t last_batch = 0;                 // rows of the last Forward()
  const int64_t* last_actions = nullptr;  // where it wrote them
  int64_t rows = 0;                       // filled so far

 private:
  CollectAttributes attributes_;
  SpecPtr output_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_TESTING_FAKE_POLICY_H_
