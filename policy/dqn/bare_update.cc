#include "ding_worker/policy/dqn/bare_update.h"

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/policy/loss/td_loss.h"
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

BareDqnUpdate::BareDqnUpdate(int64_t rows)
    : products_(CartPoleStructure(), rows),
      adam_(*Adam::Create({}, static_cast<int64_t>(products_.parameters().size()))),
      batch_(MakeTransitionBatch(CartPoleObservation(), CartPoleAction(), rows, 1)),
      q_(static_cast<size_t>(2 * rows), 0.5f),
      next_value_(static_cast<size_t>(rows), 0.5f),
      td_error_(next_value_.size()),
      d_q_(q_.size()) {}

void BareDqnUpdate::Run() {
  for (int pass = 0; pass < 3; ++pass) products_.Forward();
  ComputeTdLoss({q_, batch_.column<int64_t>("action"), batch_.column<float>("reward"),
                 batch_.column<float>("discount"), next_value_},
                {}, absl::MakeSpan(td_error_), absl::MakeSpan(d_q_));
  products_.Backward();
  const absl::Status status = adam_.Step(products_.gradients(), products_.parameters());
  DING_CHECK(status.ok()) << status;
}

}  // namespace ding
