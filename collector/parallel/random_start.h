// Wraps a policy so that it acts at random at first (policy.random_collect_size). Collectors use
// the wrapper in place of the policy.
//
//     Forward ──► at_random(): RandomCollectMode      all else ──► the policy
//             └─► then: the policy
//
// Everything but Forward() goes to the policy, so that its model is the newest when it begins to
// act.
//
// Ownership: the policy must outlive it.   Threads: as CollectMode; `at_random` is called by
// Forward().
// Errors:    kInvalidArgument for a policy that stores more of a step than the action, which a
//            random policy cannot know, and for actions that cannot be drawn at random.
#ifndef DING_WORKER_COLLECTOR_PARALLEL_RANDOM_START_H_
#define DING_WORKER_COLLECTOR_PARALLEL_RANDOM_START_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/random_policy.h"

namespace ding {

class RandomStart : public CollectMode {
 public:
  // `player` is the env as a player sees it. It acts at random for as long as `at_random` returns
  // true.
  static absl::StatusOr<std::unique_ptr<RandomStart>> Create(CollectMode* policy,
                                                             const EnvSpec& player, uint64_t seed,
                                                             std::function<bool()> at_random);

  const SpecPtr& output_spec() const override { return policy_->output_spec(); }
  CollectAttributes attributes() const override { return policy_->attributes(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status ForwardWith(const ColumnsView& obs, absl::Span<const int> env_ids,
                           const NamedValues& settings, const TensorMap& tensors,
                           const MutableColumnsView& out) override;
  absl::Status Reset(absl::Span<const int> env_ids) override { return policy_->Reset(env_ids); }
  absl::StatusOr<SegmentBatch> GetTrainSample(SegmentBatch data) override {
    return policy_->GetTrainSample(std::move(data));
  }
  absl::Status LoadModel(StateReader* reader) override { return policy_->LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override { return policy_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return policy_->LoadState(reader); }

 private:
  RandomStart(CollectMode* policy, std::unique_ptr<RandomCollectMode> random,
              std::function<bool()> at_random)
      : policy_(policy), random_(std::move(random)), at_random_(std::move(at_random)) {}

  CollectMode* const policy_;
  const std::unique_ptr<RandomCollectMode> random_;
  const std::function<bool()> at_random_;
};

}  // namespace ding

#endif  // DING_WORKER_COLLECTOR_PARALLEL_RANDOM_START_H_
