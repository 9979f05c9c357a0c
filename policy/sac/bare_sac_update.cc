#include "ding_worker/policy/sac/bare_sac_update.h"

#include <utility>

#include "absl/status/status.h"
#include "ding_worker/base/check.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"

namespace ding {
namespace {

MlpStructure ActorStructure(const ContinuousTask& task, bool td3) {
  const ActorHead head = td3 ? ActorHead::kMean : ActorHead::kNormal;
  return *MakeMlpStructure(task.hidden, task.observation,
                           *ActorOutputs(task.action->field(0), head));
}

MlpStructure CriticStructure(const ContinuousTask& task) {
  return *MakeMlpStructure(task.hidden,
                           *CriticEnsemble::InputSpec(*task.observation, task.action->field(0)),
                           *CriticEnsemble::OutputSpec(1));
}

Adam MakeAdam(const BareProducts& products) {
  return *Adam::Create({}, static_cast<int64_t>(products.gradients().size()));
}

void Step(BareProducts* products, Adam* adam) {
  const absl::Status status = adam->Step(products->gradients(), products->parameters());
  DING_CHECK(status.ok()) << status;
}

}  // namespace

ContinuousTask MakeContinuousTask(int64_t observation, int64_t action, int64_t width) {
  ContinuousTask task;
  task.observation = *MakeSpec({Box("obs", {observation})});
  task.action = *MakeSpec({Box("action", {action}, {-1}, {1})});
  task.hidden.encoder_hidden_size = {width, width};
  task.hidden.head_layer_num = 0;
  return task;
}

BareSacUpdate::BareSacUpdate(const ContinuousTask& task, bool td3, int64_t rows)
    : td3_(td3),
      actor_(ActorStructure(task, td3), rows),
      critics_(2, BareProducts(CriticStructure(task), rows)),
      actor_adam_(MakeAdam(actor_)) {
  for (const BareProducts& critic : critics_) critic_adams_.push_back(MakeAdam(critic));
}

void BareSacUpdate::Run() {
  actor_.Forward();
  for (size_t k = 0; k < critics_.size(); ++k) {
    critics_[k].Forward();  // the target
    critics_[k].Forward();
    critics_[k].Backward();
    Step(&critics_[k], &critic_adams_[k]);
  }
  if (++runs_ % (td3_ ? 2 : 1) != 0) return;
  actor_.Forward();
  for (size_t k = 0; k < (td3_ ? 1 : critics_.size()); ++k) {
    critics_[k].Forward();
    critics_[k].BackwardToInput();
  }
  actor_.Backward();
  Step(&actor_, &actor_adam_);
}

}  // namespace ding
