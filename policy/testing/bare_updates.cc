#include "ding_worker/policy/testing/bare_updates.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/continuous/continuous_actor.h"
#include "ding_worker/policy/continuous/critic_ensemble.h"
#include "ding_worker/policy/testing/random_batch.h"

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

SpecPtr CartPoleObservation() { return *MakeSpec({Box("obs", {4})}); }
SpecPtr CartPoleAction() { return *MakeSpec({Discrete("action", 2)}); }
SpecPtr CartPoleQ() { return *MakeSpec({Box("q", {2})}); }

MlpOptions CartPoleNetwork() {
  MlpOptions options;
  options.encoder_hidden_size = {128, 128, 64};
  options.dueling = true;
  return options;
}

MlpStructure CartPoleStructure() {
  return *MakeMlpStructure(CartPoleNetwork(), CartPoleObservation(), CartPoleQ());
}

BareDqnUpdate::BareDqnUpdate(int64_t rows, const MlpStructure& structure,
                             std::unique_ptr<QHead> head)
    : head_(std::move(head)),
      products_(structure, rows),
      adam_(MakeAdam(products_)),
      batch_(MakeTransitionBatch(CartPoleObservation(), CartPoleAction(), rows, 1)),
      outputs_(static_cast<size_t>(rows * structure.output->field(0).num_elements())),
      next_(outputs_.size() / static_cast<size_t>(CartPoleAction()->field(0).num_categories)),
      td_error_(static_cast<size_t>(rows)),
      d_outputs_(outputs_.size()) {
  Rng rng(0, "bare_update");
  for (float& value : outputs_) value = static_cast<float>(rng.Uniform(-1, 1));
  for (float& value : next_) value = static_cast<float>(rng.Uniform(-1, 1));
}

void BareDqnUpdate::RunLoss() {
  head_->ComputeLoss({outputs_, batch_.column<int64_t>("action"), batch_.column<float>("reward"),
                      batch_.column<float>("discount"), next_},
                     absl::MakeSpan(td_error_), absl::MakeSpan(d_outputs_));
}

void BareDqnUpdate::Run() {
  for (int pass = 0; pass < 3; ++pass) products_.Forward();
  RunLoss();
  products_.Backward();
  Step(&products_, &adam_);
}

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
