// A policy that is made of its modes and of the model that they share.
//
// Ownership: owns model and modes.
// Threads:   one thread at a time may use the policy, in any mode.
#ifndef DING_WORKER_POLICY_MODEL_POLICY_H_
#define DING_WORKER_POLICY_MODEL_POLICY_H_

#include <memory>
#include <utility>

#include "ding_worker/policy/policy.h"

namespace ding {

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

}  // namespace ding

#endif  // DING_WORKER_POLICY_MODEL_POLICY_H_
