#include "ding_worker/worker/testing/bare_network.h"

#include "absl/status/status.h"
#include "ding_worker/base/check.h"
#include "ding_worker/policy/random_batch.h"

namespace ding {
namespace {

void Check(const absl::Status& status) { DING_CHECK(status.ok()) << status; }

std::unique_ptr<Mlp> MakeNetwork(const SpecPtr& obs, const FieldSpec& output) {
  MlpOptions options;
  options.encoder_hidden_size = {64, 64};
  options.activation = MlpOptions::Activation::kTanh;
  options.head_layer_num = 0;
  return *Mlp::Create(options, obs, *MakeSpec({output}), 0);
}

}  // namespace

BareNetwork::BareNetwork(int64_t envs, int64_t obs_size, const FieldSpec& output)
    : envs_(envs),
      obs_(*MakeSpec({Box("obs", {obs_size})})),
      input_(MakeObservationBatch(obs_, kMinibatchRows, 1)),
      network_(MakeNetwork(obs_, output)),
      output_(*BatchBuilder::Create(network_->output_spec(), kMinibatchRows)),
      d_output_(*BatchBuilder::Create(network_->output_spec(), kMinibatchRows)) {
  for (float& value : d_output_.column<float>(0)) value = 0.01f;
}

void BareNetwork::Infer() { Check(network_->Infer(input_.view().Slice(0, envs_), output_.view())); }

void BareNetwork::ForwardBackward() {
  Check(network_->Forward(input_.view(), output_.view()));
  Check(network_->Backward(d_output_.view()));
}

}  // namespace ding
