// Compares DQN on the hand-written MLP and on the same MLP as a torch module.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/a2c/a2c.pb.h"
#include "ding_worker/policy/actor/actor.h"
#include "ding_worker/policy/actor/testing/actor_checkpoints.h"
#include "ding_worker/policy/bc/bc.pb.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/dqn/dqn.pb.h"
#include "ding_worker/policy/network.h"
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

struct Case {
  const char* name;
  bool dueling;
  bool double_q;
};

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& network, const Case& setup,
                                               uint64_t seed, PolicyModes modes) {
  DqnConfig dqn;
  dqn.mutable_model()->set_type(network);
  dqn.mutable_model()->add_encoder_hidden_size(32);
  dqn.mutable_model()->add_encoder_hidden_size(16);
  dqn.mutable_model()->set_dueling(setup.dueling);
  dqn.set_double_dqn(setup.double_q);
  dqn.set_target_update_freq(7);
  PolicyConfig config;
  config.set_type("dqn");
  config.set_priority(true);
  config.mutable_params()->PackFrom(dqn);
  return create_policy(config, {VectorObservation(), DiscreteAction(), seed, modes});
}

// A policy and its values to compare.
struct Side {
  Side(const std::string& network, const Case& setup)
      : policy(*Create(network, setup, /*seed=*/3, PolicyModes())) {}

  Network& network() { return static_cast<DqnPolicy*>(policy.get())->network(); }
  std::vector<float> Parameters() {
    const absl::Span<float> live = network().parameters();
    return {live.begin(), live.end()};
  }
  void Learn(const Batch& batch) {
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  }

  std::unique_ptr<Policy> policy;
  std::vector<LearnStep> steps;
};

// Returns the transitions as terminated ones.
Batch WithoutBootstrap(const Batch& batch) {
  BatchBuilder builder = *BatchBuilder::Create(batch.spec_ptr(), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  const absl::Span<float> discount = builder.column<float>(*batch.spec().Find("discount"));
  std::fill(discount.begin(), discount.end(), 0.0f);
  return std::move(builder).Seal(batch.rows());
}

float LargestMagnitude(absl::Span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

class DqnTorch : public testing::TestWithParam<Case> {};

TEST_P(DqnTorch, UpdatesAreEqualFromEqualParameters) {
  Side mlp("mlp", GetParam());
  Side torch("torch_mlp", GetParam());
  ASSERT_EQ(mlp.Parameters(), torch.Parameters()) << "the same seed gives the same network";
  for (uint64_t iter = 0; iter < 20; ++iter) {
    // Adam divides by the size of the gradient, so tiny differences would grow with each update.
    StateDict state;
    ASSERT_THAT(mlp.policy->learn_mode()->SaveModel(&state), IsOk());
    ASSERT_THAT(mlp.policy->learn_mode()->SaveTrainState(&state), IsOk());
    ASSERT_THAT(torch.policy->learn_mode()->LoadModel(&state), IsOk());
    ASSERT_THAT(torch.policy->learn_mode()->LoadTrainState(&state), IsOk());

    const Batch batch = MakeTransitionBatch(VectorObservation(), DiscreteAction(), 32, iter);
    mlp.Learn(batch);
    torch.Learn(batch);
    EXPECT_NEAR(*mlp.steps[0].scalars.Get("total_loss"), *torch.steps[0].scalars.Get("total_loss"),
                1e-5);
    for (size_t i = 0; i < mlp.steps[0].priority.size(); ++i) {
      EXPECT_NEAR(mlp.steps[0].priority[i], torch.steps[0].priority[i], 1e-5) << "row " << i;
    }
    const absl::Span<const float> gradient = mlp.network().gradients();
    const float largest = LargestMagnitude(gradient);
    ASSERT_GT(largest, 0);
    const std::vector<float> parameters = mlp.Parameters();
    const std::vector<float> torch_parameters = torch.Parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_NEAR(gradient[i], torch.network().gradients()[i], 1e-5 * largest)
          << "parameter " << i << ", iteration " << iter;
      if (std::abs(gradient[i]) < 1e-3 * largest) continue;
      // A hundredth of the largest step, the learning rate 1e-3.
      ASSERT_NEAR(parameters[i], torch_parameters[i], 1e-5)
          << "parameter " << i << ", iteration " << iter;
    }
  }
}

TEST_P(DqnTorch, LearnsOnBothNetworks) {
  // Without bootstrap, because bootstrapping from random transitions may diverge.
  for (const char* network : {"mlp", "torch_mlp"}) {
    Side side(network, GetParam());
    const Batch batch =
        WithoutBootstrap(MakeTransitionBatch(VectorObservation(), DiscreteAction(), 16, 1));
    side.Learn(batch);
    const double before = *side.steps[0].scalars.Get("total_loss");
    for (int i = 0; i < 500; ++i) side.Learn(batch);
    EXPECT_LT(*side.steps[0].scalars.Get("total_loss"), 0.3 * before) << network;
  }
}

constexpr Case kCases[] = {{"DuelingDouble", true, true}, {"PlainHeadPlainQ", false, false}};

INSTANTIATE_TEST_SUITE_P(Kinds, DqnTorch, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(DqnTorch, PolicyConformance,
                         testing::Values(PolicyConformanceCase{
                             "torch_mlp",
                             [](uint64_t seed, PolicyModes modes) {
                               return Create("torch_mlp", kCases[0], seed, modes);
                             },
                             VectorObservation(), DiscreteAction()}),
                         testing::PrintToStringParamName());

// Compares behaviour cloning on the hand-written MLP and on the same MLP as a torch module.

SpecPtr Categories() { return *MakeSpec({MultiDiscrete("action", {2, 3})}); }
SpecPtr Continuous() { return *MakeSpec({Box("action", {2}, {-1}, {1})}); }

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& network, const SpecPtr& action,
                                               uint64_t seed, PolicyModes modes) {
  BcConfig bc;
  bc.mutable_model()->set_type(network);
  bc.mutable_model()->add_encoder_hidden_size(16);
  bc.set_normalize_obs(true);
  PolicyConfig config;
  config.set_type("bc");
  config.mutable_params()->PackFrom(bc);
  return create_policy(config, {VectorObservation(), action, seed, modes});
}

TEST(BcTorch, LearnsTheSameAsOnTheHandWrittenMlp) {
  for (const SpecPtr& action : {Categories(), Continuous()}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto by_hand, Create("mlp", action, 3, PolicyModes()));
    DING_ASSERT_OK_AND_ASSIGN(const auto torch, Create("torch_mlp", action, 3, PolicyModes()));
    std::vector<LearnStep> a, b;
    for (uint64_t i = 0; i < 10; ++i) {
      const Batch batch = MakeTransitionBatch(VectorObservation(), action, 16, i);
      ASSERT_THAT(by_hand->learn_mode()->Forward(batch, {}, &a), IsOk());
      ASSERT_THAT(torch->learn_mode()->Forward(batch, {}, &b), IsOk());
      for (const std::string& name : by_hand->learn_mode()->monitor_vars()) {
        const double expected = *a[0].scalars.Get(name);
        EXPECT_NEAR(*b[0].scalars.Get(name), expected, 1e-4 * (1 + std::abs(expected)))
            << name << ", call " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BcTorch, PolicyConformance,
                         testing::Values(PolicyConformanceCase{
                             "box",
                             [](uint64_t seed, PolicyModes modes) {
                               return Create("torch_mlp", Continuous(), seed, modes);
                             },
                             VectorObservation(), Continuous(), /*learns=*/true,
                             MakeTransitionBatch, kColumnObs}),
                         testing::PrintToStringParamName());

// Compares PPO on the hand-written MLP and on the same MLP as a torch module.

SpecPtr Action() { return *MakeSpec({Box("action", {2}, {-1}, {1})}); }

absl::StatusOr<std::unique_ptr<Policy>> Create(const std::string& network, bool critic,
                                               uint64_t seed, PolicyModes modes) {
  PpoConfig ppo;
  ActorCriticConfig& common = *ppo.mutable_actor_critic();
  common.mutable_model()->set_type(network);
  common.mutable_model()->add_encoder_hidden_size(16);
  if (critic) *common.mutable_critic() = common.model();
  ppo.set_epoch_per_collect(2);
  PolicyConfig config;
  config.set_type("ppo");
  config.set_batch_size(6);
  config.mutable_params()->PackFrom(ppo);
  return create_policy(config, {VectorObservation(), Action(), seed, modes});
}

TEST(PpoTorch, LearnsTheSameAsOnTheHandWrittenMlp) {
  for (const bool critic : {false, true}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto by_hand, Create("mlp", critic, 3, PolicyModes()));
    DING_ASSERT_OK_AND_ASSIGN(const auto torch, Create("torch_mlp", critic, 3, PolicyModes()));
    std::vector<LearnStep> a, b;
    for (uint64_t i = 0; i < 5; ++i) {
      const Batch batch = MakeOnPolicyBatch(VectorObservation(), Action(), 16, i);
      ASSERT_THAT(by_hand->learn_mode()->Forward(batch, {}, &a), IsOk());
      ASSERT_THAT(torch->learn_mode()->Forward(batch, {}, &b), IsOk());
      ASSERT_EQ(a.size(), b.size());
      for (size_t step = 0; step < a.size(); ++step) {
        for (const std::string& name : by_hand->learn_mode()->monitor_vars()) {
          const double expected = *a[step].scalars.Get(name);
          EXPECT_NEAR(*b[step].scalars.Get(name), expected, 1e-4 * (1 + std::abs(expected)))
              << name << ", call " << i << ", step " << step;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    PpoTorch, PolicyConformance,
    testing::Values(PolicyConformanceCase{
        "separate",
        [](uint64_t seed, PolicyModes modes) { return Create("torch_mlp", true, seed, modes); },
        VectorObservation(), Action(), /*learns=*/true, MakeOnPolicyBatch, kColumnAdvantage}),
    testing::PrintToStringParamName());

// Tests that every algorithm learns from pictures by torch_cnn.

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
                IsInvalid("model: CNN: input 'obs/image' uint8[2, 2, 6]: conv[0] has kernel 3"));
  }
}

// Tests that actors compute the networks of libtorch without it.

class ActorTorchTest : public testing::TestWithParam<ActorCase> {};

BatchBuilder RandomObservations(const SpecPtr& spec, int64_t rows, uint64_t seed) {
  BatchBuilder obs = BatchBuilder::Create(spec, rows).value();
  Rng rng(seed, "observations");
  for (int field = 0; field < spec->size(); ++field) {
    if (spec->field(field).dtype == DType::kFloat32) {
      for (float& value : obs.column<float>(field)) value = static_cast<float>(3 * rng.Normal());
    } else {
      const bool mask = spec->field(field).dtype == DType::kBool;
      for (uint8_t& value : obs.column<uint8_t>(field)) {
        value = mask ? 1 : static_cast<uint8_t>(rng.UniformInt(256));
      }
    }
  }
  return obs;
}

TEST_P(ActorTorchTest, ActsAsTheEvalMode) {
  const ActorCase& of = GetParam();
  const std::string path = JoinPath(testing::TempDir(), "actor_torch_" + of.name);
  const std::unique_ptr<Policy> policy = MakeRandomPolicy(of);
  SaveActorCheckpoint(of, policy.get(), path);
  DING_ASSERT_OK_AND_ASSIGN(const auto actor, Actor::Load(path));
  EvalMode* const eval = policy->eval_mode();
  std::set<double> seen;
  for (const int64_t rows : {1, 3, 70}) {
    ASSERT_THAT(eval->Reset({}), IsOk());
    actor->Begin();
    std::vector<int> ids;
    for (int i = 0; i < rows; ++i) ids.push_back(i);
    for (uint64_t step = 0; step < 4; ++step) {
      const BatchBuilder obs = RandomObservations(of.observation, rows, step);
      const BatchBuilder out = BatchBuilder::Create(eval->output_spec(), rows).value();
      ASSERT_THAT(eval->Forward(obs.view(), ids, {}, out.view()), IsOk());
      DING_ASSERT_OK_AND_ASSIGN(const ColumnsView actions, actor->Act(obs.view(), ids));
      if (of.action->field(0).is_discrete()) {
        EXPECT_EQ(actions.column<int64_t>(0), out.column<int64_t>(0));
        for (const int64_t action : out.column<int64_t>(0)) seen.insert(action);
        continue;
      }
      const absl::Span<const float> found = actions.column<float>(0);
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], out.column<float>(0)[i], 2e-5) << rows << ", " << step << ": " << i;
        seen.insert(found[i]);
      }
    }
  }
  EXPECT_GT(seen.size(), 1u) << "the test cannot fail";
}

INSTANTIATE_TEST_SUITE_P(All, ActorTorchTest, testing::ValuesIn(TorchActorCases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ding
