// A policy for tests that acts by counting and records its calls. It is both a collect and an eval
// mode.
//
// Its output is "action" (Discrete) and "logit" float32[2]; the n-th row that it fills has action
// n % action_count and logit {env, n}.
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
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class FakePolicy : public CollectMode, public EvalMode {
 public:
  explicit FakePolicy(CollectAttributes attributes = {}, int64_t action_count = 4);
  // Uses `output`, whose first field is an int64 action; other fields are not written.
  FakePolicy(CollectAttributes attributes, SpecPtr output);

  const SpecPtr& output_spec() const override { return output_; }
  CollectAttributes attributes() const override { return attributes_; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status ForwardWith(const ColumnsView& obs, absl::Span<const int> env_ids,
                           const NamedValues& settings, const TensorMap& tensors,
                           const MutableColumnsView& out) override;
  absl::Status Reset(absl::Span<const int> env_ids) override;
  absl::StatusOr<SegmentBatch> GetTrainSample(SegmentBatch data) override;
  absl::Status LoadModel(StateReader* reader) override;
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

  // Forward() calls it with the env ids and returns its result.
  std::function<absl::Status(absl::Span<const int>)> on_forward;
  // LoadModel() calls it and returns its result.
  std::function<absl::Status(StateReader*)> on_load_model;
  // GetTrainSample() calls it.
  std::function<void(SegmentBatch*)> on_train_sample;

  // The recorded calls.
  std::vector<std::vector<int>> resets;
  NamedValues last_settings;
  TensorMap last_tensors;
  int64_t last_batch = 0;                 // number of rows of the last Forward()
  const int64_t* last_actions = nullptr;  // address of the actions of the last Forward()
  int64_t rows = 0;                       // number of rows so far

 private:
  CollectAttributes attributes_;
  SpecPtr output_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_TESTING_FAKE_POLICY_H_
