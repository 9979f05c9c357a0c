// Tests that every algorithm learns from pictures by torch_cnn.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/a2c/a2c.pb.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

// A picture, a vector and an action mask.
SpecPtr Observation() {
  FieldSpec picture = Box("obs/image", {2, 6, 6});
  picture.dtype = DType::kUint8;
  FieldSpec mask = Box("obs/action_mask", {3});
  mask.dtype = DType::kUint8;
  return *MakeSpec({picture, Box("obs/speed", {3}), mask});
}

NetworkConfig Model() {
  NetworkConfig model;
  model.set_type("torch_cnn");
  model.add_encoder_hidden_size(16);
  model.add_conv()->set_channels(4);
  model.mutable_conv(0)->set_kernel(3);
  return model;
}

PolicyConfig ConfigOf(const std::string& type, const google::protobuf::Message& params) {
  PolicyConfig config;
  config.set_type(type);
  config.set_batch_size(6);
  config.mutable_params()->PackFrom(params);
  return config;
}

PolicyConfig Dqn() {
  DqnConfig params;
  *params.mutable_model() = Model();
  params.mutable_model()->set_dueling(true);
  PolicyConfig config = ConfigOf("dqn", params);
  config.set_priority(true);
  return config;
}

PolicyConfig Ppo() {
  PpoConfig params;
  *params.mutable_actor_critic()->mutable_model() = Model();
  params.set_epoch_per_collect(2);
  return ConfigOf("ppo", params);
}

PolicyConfig A2c() {
  A2cConfig params;
  *params.mutable_actor_critic()->mutable_model() = Model();
  *params.mutable_actor_critic()->mutable_critic() = Model();
  return ConfigOf("a2c", params);
}

PolicyConformanceCase OffPolicyCase(const PolicyConfig& config) {
  return {config.type(),
          [config](uint64_t seed, PolicyModes modes) {
            return create_policy(config, {Observation(), DiscreteAction(), seed, modes});
          },
          Observation(), DiscreteAction()};
}

PolicyConformanceCase OnPolicyCase(const PolicyConfig& config) {
  PolicyConformanceCase on_policy = OffPolicyCase(config);
  on_policy.make_batch = MakeOnPolicyBatch;
  on_policy.needed_column = kColumnAdvantage;
  return on_policy;
}

INSTANTIATE_TEST_SUITE_P(Cnn, PolicyConformance,
                         testing::Values(OffPolicyCase(Dqn()), OnPolicyCase(Ppo()),
                                         OnPolicyCase(A2c())),
                         testing::PrintToStringParamName());

TEST(CnnPolicies, RefusesANetworkThatDoesNotFitWithTheFieldAndItsShape) {
  for (const PolicyConfig& good : {Dqn(), Ppo(), A2c()}) {
    FieldSpec picture = Box("obs/image", {2, 2, 6});
    picture.dtype = DType::kUint8;
    EXPECT_THAT(create_policy(good, {*MakeSpec({picture}), DiscreteAction(), 0, PolicyModes()}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("model: CNN: input 'obs/image' uint8[2, 2, 6]: conv[0] has "
                                   "kernel 3")));
  }
}

}  // namespace
}  // namespace ding
