// Learning and acting must not allocate while sizes repeat: the allocator would take as much time
// as a layer, and fragment memory over billions of calls.
#include "ding_worker/policy/ppo/ppo.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/ppo/ppo.pb.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "ding_worker/policy/testing/allocation.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
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

// PPO on the networks that it is used with, made by the factories.

SpecPtr MaskedObservation() {
  return *MakeSpec({Box("obs/a", {2}), ActionMaskSpec(5), Box("obs/b", {2})});
}

struct Space {
  std::string name;
  SpecPtr observation;
  SpecPtr action;
  bool critic;  // of its own
  bool normalize;
};

absl::StatusOr<std::unique_ptr<Policy>> Create(const Space& space, uint64_t seed,
                                               PolicyModes modes) {
  PpoConfig ppo;
  ActorCriticConfig& common = *ppo.mutable_actor_critic();
  // Smooth: finite differences hold.
  common.mutable_model()->set_activation(NetworkConfig::TANH);
  common.mutable_model()->add_encoder_hidden_size(12);
  common.set_entropy_weight(0.05);
  if (!space.action->field(0).is_discrete()) common.set_initial_log_std(-0.5);
  common.set_normalize_obs(space.normalize);
  common.set_scale_reward(space.normalize);
  if (space.critic) *common.mutable_critic() = common.model();
  ppo.set_epoch_per_collect(2);
  ppo.set_value_clip(0.5);
  PolicyConfig config;
  config.set_type("ppo");
  config.set_batch_size(6);  // The last minibatch has fewer.
  config.mutable_params()->PackFrom(ppo);
  return create_policy(config, {space.observation, space.action, seed, modes});
}

std::vector<Space> Spaces() {
  const SpecPtr discrete = *MakeSpec({Discrete("action", 3)});
  const SpecPtr multi = *MakeSpec({MultiDiscrete("action", {2, 3})});
  const SpecPtr box = *MakeSpec({Box("action", {2}, {-1, 0}, {1, 5})});
  return {{"discrete", VectorObservation(), discrete, true, false},
          {"discrete_shared", VectorObservation(), discrete, false, true},
          {"multi_discrete", VectorObservation(), multi, true, false},
          {"multi_discrete_masked", MaskedObservation(), multi, true, true},
          {"box", VectorObservation(), box, true, true},
          {"box_shared", VectorObservation(), box, false, false}};
}

class PpoMlp : public testing::TestWithParam<Space> {};

// The loss of the first minibatch of a call, by the definitions, as a function of all parameters.
TEST_P(PpoMlp, TheGradientAgreesWithFiniteDifferencesThroughLossAndNetworks) {
  constexpr int64_t kRows = 6;  // One minibatch, in the order of the batch.
  DING_ASSERT_OK_AND_ASSIGN(const auto made, Create(GetParam(), 5, PolicyModes()));
  auto* const policy = static_cast<ActorCriticPolicy*>(made.get());
  ActorCritic& networks = policy->actor_critic();
  const Batch batch = MakeOnPolicyBatch(GetParam().observation, GetParam().action, kRows, 9);
  std::vector<std::vector<float>> before;
  for (const ParameterGroup& group : networks.Groups()) {
    before.emplace_back(group.parameters.begin(), group.parameters.end());
  }
  std::vector<float> adv(batch.column<float>("adv").begin(), batch.column<float>("adv").end());
  double mean = 0, variance = 0;
  for (const float value : adv) mean += value / kRows;
  for (const float value : adv) variance += (value - mean) * (value - mean) / kRows;
  const int taken = *batch.spec().Find(networks.distribution().taken_field().name);
  std::vector<float> log_prob(kRows), entropy(kRows), value(kRows);
  const auto loss = [&] {
    EXPECT_THAT(networks.Act(batch.view(), absl::MakeSpan(value)), IsOk());
    networks.distribution().LogProb(batch.view(), taken, absl::MakeSpan(log_prob));
    networks.distribution().Entropy(absl::MakeSpan(entropy));
    double sum = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      const double ratio = std::exp(log_prob[i] - batch.column<float>("log_prob")[i]);
      const double a = (adv[i] - mean) / std::sqrt(variance);
      const double old_value = batch.column<float>("value")[i];
      const double target = batch.column<float>("return")[i];
      const double near = old_value + std::max(-0.5, std::min(0.5, value[i] - old_value));
      sum -= std::min(ratio * a, std::max(0.8, std::min(1.2, ratio)) * a);
      sum += 0.25 * std::max(std::pow(value[i] - target, 2), std::pow(near - target, 2));
      sum -= 0.05 * entropy[i];
    }
    return sum / kRows;
  };
  const double expected_loss = loss();
  // Without a step all epochs have the same gradient.
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {{"lr", 0}}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), expected_loss, 1e-5);
  const double norm = *steps[1].scalars.Get("grad_norm");
  const double clipped = norm > 0.5 ? 0.5 / norm : 1;  // grad_clip_norm
  const std::vector<ParameterGroup> groups = networks.Groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<float> gradient(groups[g].gradients.begin(), groups[g].gradients.end());
    for (size_t i = 0; i < gradient.size(); ++i) {
      constexpr float kStep = 1.0f / 256;
      groups[g].parameters[i] = before[g][i] + kStep;
      const double above = loss();
      groups[g].parameters[i] = before[g][i] - kStep;
      const double below = loss();
      groups[g].parameters[i] = before[g][i];
      EXPECT_NEAR(gradient[i], clipped * (above - below) / (2 * kStep), 3e-3)
          << groups[g].name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, PpoMlp, testing::ValuesIn(Spaces()),
                         [](const auto& info) { return info.param.name; });

std::vector<PolicyConformanceCase> Cases() {
  std::vector<PolicyConformanceCase> cases;
  for (const Space& space : Spaces()) {
    cases.push_back(
        {space.name,
         [space](uint64_t seed, PolicyModes modes) { return Create(space, seed, modes); },
         space.observation, space.action, /*learns=*/true, MakeOnPolicyBatch, kColumnAdvantage});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ppo, PolicyConformance, testing::ValuesIn(Cases()),
                         testing::PrintToStringParamName());

class PpoFactory : public testing::Test {
 protected:
  PpoFactory() {
    config_.set_type("ppo");
    common().mutable_model()->add_encoder_hidden_size(8);
    context_.observation = *MakeSpec({Box("obs", {4})});
    context_.action = *MakeSpec({Discrete("action", 2)});
  }
  ActorCriticConfig& common() { return *params_.mutable_actor_critic(); }
  absl::StatusOr<std::unique_ptr<Policy>> Create() {
    config_.mutable_params()->PackFrom(params_);
    return create_policy(config_, context_);
  }

  PolicyConfig config_;
  PpoConfig params_;
  PolicyContext context_;
};

TEST_F(PpoFactory, HandsTheConfigOn) {
  config_.set_batch_size(5);
  config_.set_n_sample(64);
  params_.set_epoch_per_collect(3);
  common().set_learning_rate(0.25);
  common().set_lr_decay_env_steps(100);
  common().set_entropy_weight(0.5);
  common().set_entropy_decay_env_steps(200);
  common().set_final_entropy_weight(0.25);
  *common().mutable_critic() = common().model();
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->collect_mode()->attributes().n_sample, 64);
  EXPECT_TRUE(policy->collect_mode()->attributes().on_policy);
  const NamedValues settings = policy->command_mode()->GetSettingLearn({{"envstep", 50}});
  EXPECT_DOUBLE_EQ(*settings.Get("lr"), 0.125);
  EXPECT_DOUBLE_EQ(*settings.Get("entropy_weight"), 0.4375);
  EXPECT_EQ(policy->learn_mode()->info(),
            "ppo on mlp 4-8, logit 8-2: 130 parameters; critic mlp 4-8, value 8-1: 121 parameters");
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(
                  MakeOnPolicyBatch(context_.observation, context_.action, 12, 1), {}, &steps),
              IsOk());
  EXPECT_EQ(steps.size(), 9u) << "5, 5 and 2 rows, three times";
  EXPECT_EQ(*steps[0].scalars.Get("cur_lr"), 0.25);
}

TEST_F(PpoFactory, MakesSamplesOfUnrollLenRows) {
  config_.set_unroll_len(4);
  // What becomes of 5 rows: the rows of all samples, and those of them that are not padding.
  for (const auto& [last, rows, real_rows] :
       {std::tuple(PolicyConfig::NULL_PADDING, 8, 5), std::tuple(PolicyConfig::LAST, 8, 8),
        std::tuple(PolicyConfig::DROP, 4, 4)}) {
    config_.set_last_sample(last);
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
    EXPECT_EQ(policy->collect_mode()->attributes().unroll_len, 4);
    EXPECT_TRUE(policy->learn_mode()->attributes().sequences);
    const SpecPtr& output = policy->collect_mode()->output_spec();
    std::vector<FieldSpec> fields = {Box("obs", {4})};
    fields.insert(fields.end(), output->fields().begin(), output->fields().end());
    fields.push_back(Scalar("reward", DType::kFloat32));
    BatchBuilder collected = *BatchBuilder::Create(*MakeSpec(std::move(fields)), 5);
    CopyRows(MakeObservationBatch(context_.observation, 5, 1).view(), collected.view(), 0);
    ASSERT_THAT(policy->collect_mode()->Forward(collected.view(), {}, {},
                                                collected.view().Fields(output.get(), 1)),
                IsOk());
    for (float& reward : collected.column<float>(collected.spec().size() - 1)) reward = 1;
    SegmentBatch data;
    data.rows = std::move(collected).Seal(5);
    data.final_obs = MakeObservationBatch(context_.observation, 1, 2);
    data.segments = {{0, 0, 0, 5, SegmentEnd::kTruncated}};
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch samples,
                              policy->collect_mode()->GetTrainSample(data));
    EXPECT_EQ(samples.size(), rows);
    const absl::Span<const uint8_t> mask = samples.rows.column<uint8_t>("mask");
    EXPECT_EQ(std::count(mask.begin(), mask.end(), 1), real_rows);
  }
}

TEST_F(PpoFactory, RecurrentNetworksNeedSamplesOfSeveralRows) {
  common().mutable_model()->set_type("rnn");
  EXPECT_THAT(Create(),
              IsInvalid("policy type 'ppo': unroll_len is 1", "set unroll_len to 2 or more"));
  config_.set_unroll_len(2);
  EXPECT_THAT(Create(), IsOk());
}

TEST_F(PpoFactory, ReportsAllProblemsAtOnce) {
  config_.set_nstep(3);
  config_.set_priority(true);
  common().mutable_critic()->set_type("transformer");
  context_.action = *MakeSpec({Box("action", {1})});
  EXPECT_THAT(Create().status(),
              IsInvalid("policy type 'ppo': ", "nstep is 3", "priority is set",
                        "critic: ", "'transformer'", "no distribution for the action space"));
}

TEST_F(PpoFactory, RefusesFieldsThatNothingReads) {
  common().set_obs_clip(5);
  common().set_freeze_obs_statistics(true);
  common().set_final_entropy_weight(0.1);
  common().set_initial_log_std(-1);
  EXPECT_THAT(Create(), IsInvalid("obs_clip is 5, which has no effect without normalize_obs",
                                  "freeze_obs_statistics is true, which has no effect without",
                                  "final_entropy_weight is 0.1, which has no effect without "
                                  "entropy_decay_env_steps",
                                  "initial_log_std is -1, which has no effect without continuous"));
  common().set_normalize_obs(true);
  common().set_entropy_decay_env_steps(100);
  common().clear_initial_log_std();
  EXPECT_THAT(Create(), IsOk());
}

TEST_F(PpoFactory, AMaskThatDoesNotFitIsRefused) {
  context_.observation = *MakeSpec({Box("obs/x", {4}), Box("obs/action_mask", {2})});
  EXPECT_THAT(Create(), IsInvalid("'obs/action_mask' is float32[2]", "expected bool[2]"));
}

}  // namespace
}  // namespace ding
