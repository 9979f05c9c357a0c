// The options of off-policy algorithms with continuous actions, and how they act: their collect and
// eval modes.
//
//   collect  draws actions by the algorithm's Exploration
//   eval     takes tanh(mean)
//
// Saved: collect state "rng".
//
// Ownership: the modes use the actor, which must outlive them.
// Threads:   one thread at a time may use the modes of an actor.
// Errors:    kInvalidArgument for data of another layout; kInternal for outputs of the network that
//            are not finite. Messages begin with the name of the algorithm.
#ifndef DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTING_H_
#define DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/batch_columns.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/loss/loss_function.h"
#include "ding_worker/policy/loss/off_policy_loss.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// The loss of the critics, as ComputeCriticLoss() computes it; for your own algorithms.
using CriticLoss = std::function<CriticLossResult(
    const CriticLossInput&, absl::Span<float> td_error, const MutableCriticColumns& d_q)>;

// The options that the off-policy algorithms with continuous actions share.
struct ContinuousOptions {
  uint64_t seed = 0;  // streams: "policy/collect", "policy/learn"
  AdamOptions actor_adam;
  AdamOptions critic_adam;
  double grad_clip_norm = 0;           // maximal norm, of actor and critics each; 0: not clipped
  double target_update_theta = 0.005;  // the targets move by this fraction, in (0, 1]
  // The periods of the steps of the actor, and of the updates of the targets, in training
  // iterations; at least 1.
  int64_t actor_update_freq = 1;
  int64_t target_delay = 1;
  int learn_threads = 1;  // MakeLearnTeam()
  // The schedules change the settings kActorRate and kCriticRate (policy/policy_modes.h), and the
  // settings that the algorithm adds.
  FieldSchedules schedules;
  CriticLoss critic_loss = ComputeCriticLoss;
  // The bound of normalized observations; not set: observations are not normalized.
  std::optional<double> obs_clip;
  // Your own losses of the critics and of the actor (SAC, TD3 and DDPG only); null: the algorithm's
  // losses.
  std::shared_ptr<LossFunction> own_loss;
  std::shared_ptr<LossFunction> own_actor_loss;
  CollectAttributes collect;
  LearnAttributes learn;
  PolicyModes modes;
  // Averages gradients with the other learners of a group; null: a single learner. It must outlive
  // the policy.
  GradientReducer* reducer = nullptr;
};

// Draws actions for a collect mode. Thread-compatible.
class Exploration {
 public:
  virtual ~Exploration() = default;
  // Reads the settings of a collect call, before Explore(). kInvalidArgument if one is out of
  // range.
  virtual absl::Status ReadSettings(const NamedValues& /*settings*/) { return absl::OkStatus(); }
  // Writes an action in [-1, 1] to `action` [B, n] for each row of `outputs`, the outputs of the
  // actor's network.
  virtual void Explore(const ColumnsView& outputs, Rng* rng, absl::Span<float> action) = 0;
};

class ContinuousCollectMode : public CollectMode {
 public:
  ContinuousCollectMode(ContinuousActor* actor, std::unique_ptr<Exploration> exploration,
                        const ContinuousOptions& options);

  const SpecPtr& output_spec() const override { return actor_.action(); }
  CollectAttributes attributes() const override { return attributes_; }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status LoadModel(StateReader* reader) override { return actor_.LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  ContinuousActor& actor_;
  const std::unique_ptr<Exploration> exploration_;
  const CollectAttributes attributes_;
  ScratchColumns inputs_;
  Rng rng_;
};

class ContinuousEvalMode : public EvalMode {
 public:
  explicit ContinuousEvalMode(ContinuousActor* actor)
      : actor_(*actor), inputs_(actor_.observation()) {}

  const SpecPtr& output_spec() const override { return actor_.action(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override;
  absl::Status LoadModel(StateReader* reader) override { return actor_.LoadModel(reader); }

 private:
  ContinuousActor& actor_;
  ScratchColumns inputs_;
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_CONTINUOUS_CONTINUOUS_ACTING_H_
