// Parts that policies are made of: a policy that owns its modes, a command mode of schedules, and a
// collect mode that acts like an eval mode.
#ifndef DING_WORKER_POLICY_POLICY_MODES_H_
#define DING_WORKER_POLICY_POLICY_MODES_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/schedule.h"

namespace ding {

// A policy that consists of its modes and of the model that they share.
//
// Ownership: owns model and modes.
// Threads:   one thread at a time may use the policy, in any mode.
template <typename Model>
class ModelPolicy : public Policy {
 public:
  CollectMode* collect_mode() override { return collect_.get(); }
  LearnMode* learn_mode() override { return learn_.get(); }
  EvalMode* eval_mode() override { return eval_.get(); }
  CommandMode* command_mode() override { return command_.get(); }

 protected:
  explicit ModelPolicy(std::unique_ptr<Model> model) : model_(std::move(model)) {}

  const std::unique_ptr<Model> model_;
  // A subclass creates the modes that its options name.
  std::unique_ptr<CollectMode> collect_;
  std::unique_ptr<LearnMode> learn_;
  std::unique_ptr<EvalMode> eval_;
  std::unique_ptr<CommandMode> command_;
};

// Settings that the learn modes of several algorithms read: learning rates of actor, critics and
// temperature, and the target entropy of the temperature.
inline constexpr char kActorRate[] = "actor_learning_rate";
inline constexpr char kCriticRate[] = "critic_learning_rate";
inline constexpr char kAlphaRate[] = "alpha_learning_rate";
inline constexpr char kTargetEntropy[] = "target_entropy";

// A command mode that gives only the settings of schedules, if there are any.
//
// Threads: thread-safe.
class ScheduledSettings : public CommandMode {
 public:
  explicit ScheduledSettings(FieldSchedules schedules = {}) : schedules_(std::move(schedules)) {}

  NamedValues GetSettingCollect(const NamedValues& info) override {
    NamedValues settings;
    schedules_.AddCollectSettings(info, &settings);
    return settings;
  }
  NamedValues GetSettingLearn(const NamedValues& info) override {
    NamedValues settings;
    schedules_.AddLearnSettings(info, &settings);
    return settings;
  }

 private:
  const FieldSchedules schedules_;
};

// A collect mode that acts like an eval mode, without exploration. It serves to record a trained
// policy.
//
// It saves no state: it has none of its own, and an eval mode cannot save its state.
//
// Ownership: the eval mode must outlive it.
// Threads:   thread-compatible.
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

#endif  // DING_WORKER_POLICY_POLICY_MODES_H_
