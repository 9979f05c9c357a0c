// A collect mode that acts like an eval mode, without exploration, to record a trained policy.
//
// It has no state of its own and cannot save the state of the eval mode.
//
// Ownership: the eval mode must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_POLICY_EVAL_COLLECT_MODE_H_
#define DING_WORKER_POLICY_EVAL_COLLECT_MODE_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class EvalCollectMode : public CollectMode {
 public:
  explicit EvalCollectMode(EvalMode* eval) : eval_(*eval) {}

  const SpecPtr& output_spec() const override { return eval_.output_spec(); }
  CollectAttributes attributes() const override {
    CollectAttributes attributes;
    attributes.reward_components = true;  // it reads no rewards
    return attributes;
  }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override {
    return eval_.Forward(obs, env_ids, settings, out);
  }
  absl::Status ForwardWith(const ColumnsView& obs, absl::Span<const int> env_ids,
                           const NamedValues& settings, const TensorMap& tensors,
                           const MutableColumnsView& out) override {
    return eval_.ForwardWith(obs, env_ids, settings, tensors, out);
  }
  absl::Status Reset(absl::Span<const int> env_ids) override { return eval_.Reset(env_ids); }
  absl::Status LoadModel(StateReader* reader) override { return eval_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* /*writer*/) const override { return absl::OkStatus(); }
  absl::Status LoadState(StateReader* /*reader*/) override { return absl::OkStatus(); }

 private:
  EvalMode& eval_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_EVAL_COLLECT_MODE_H_
