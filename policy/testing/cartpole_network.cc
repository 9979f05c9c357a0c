#include "ding_worker/policy/testing/cartpole_network.h"

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

}  // namespace ding
