// Learning and acting must not allocate while sizes repeat: the allocator would take as much time
// as a layer, and fragment memory over billions of calls.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/ppo/ppo.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/testing/allocation.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

TEST(PpoAllocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = *MakeSpec({Box("obs", {4})});
  const SpecPtr action = *MakeSpec({Discrete("action", 2)});
  MlpOptions mlp;
  mlp.encoder_hidden_size = {32, 16};
  PpoOptions options;
  options.epochs = 2;
  options.minibatch_size = 24;
  options.policy.grad_clip_norm = 0.5;
  options.policy.networks.normalize_obs = true;
  const auto policy =
      *CreatePpo(*Mlp::Create(mlp, observation, *MakeSpec({Box("logit", {2})}), 0),
                 *Mlp::Create(mlp, observation, *MakeSpec({ActorCritic::ValueField()}), 1),
                 observation, action, options);
  const Batch batch = MakeOnPolicyBatch(observation, action, 64, 1);
  const Batch obs = MakeObservationBatch(observation, 8, 1);
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(), batch, obs);
}

TEST(PpoAllocation, AllocatesNothingWithRecurrentNetworksWhileSizesRepeat) {
  const SpecPtr observation = *MakeSpec({Box("obs", {4})});
  const SpecPtr action = *MakeSpec({Discrete("action", 2)});
  RnnOptions rnn;
  rnn.hidden_size = 16;
  PpoOptions options;
  options.epochs = 2;
  options.minibatch_size = 3;
  options.policy.collect.unroll_len = 8;
  const auto policy =
      *CreatePpo(*Rnn::Create(rnn, observation, *MakeSpec({Box("logit", {2})}), 0),
                 *Rnn::Create(rnn, observation, *MakeSpec({ActorCritic::ValueField()}), 1),
                 observation, action, options);
  const Batch single = MakeOnPolicyBatch(observation, action, 64, 1);
  std::vector<FieldSpec> fields(single.spec().fields().begin(), single.spec().fields().end());
  fields.push_back(Scalar("mask", DType::kBool));
  fields.push_back(Box("rnn_state", {64}));
  BatchBuilder samples = *BatchBuilder::Create(*MakeSpec(std::move(fields)), 64);
  CopyRows(single.view(), samples.view(), 0);
  for (uint8_t& real : samples.column<uint8_t>(samples.spec().size() - 2)) real = 1;
  for (float& state : samples.column<float>(samples.spec().size() - 1)) state = 0;
  const Batch batch = std::move(samples).Seal(64).AsSequences(8);
  const Batch obs = MakeObservationBatch(observation, 8, 1);
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(), batch, obs);
}

}  // namespace
}  // namespace ding
