#include "ding_worker/policy/dqn/bare_update.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/policy/random_batch.h"

namespace ding {

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
      adam_(*Adam::Create({}, static_cast<int64_t>(products_.parameters().size()))),
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
  const absl::Status status = adam_.Step(products_.gradients(), products_.parameters());
  DING_CHECK(status.ok()) << status;
}

}  // namespace ding
