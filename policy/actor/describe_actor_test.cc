#include "ding_worker/policy/actor/describe_actor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/actor/action_head.h"
#include "ding_worker/policy/actor/actor_description.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

// Says that the network of `batch_size` 2 is one of someone's own.
absl::StatusOr<ActorDescription> Describe(const PolicyConfig& config, const Spec& action) {
  NetworkConfig network;
  network.set_type(config.batch_size() == 2 ? "mine" : "mlp");
  network.add_encoder_hidden_size(7);
  ActorDescription description;
  DING_RETURN_IF_ERROR(DescribeNetwork(network, &description));
  description.head = DistributionHeadOf(action);
  return description;
}
DING_REGISTER(ActorDescriberRegistry(), "test_policy", Describe, "for this test");

TEST(DescribeActor, AsksThePolicy) {
  PolicyConfig config;
  config.set_type("test_policy");
  const SpecPtr box = *MakeSpec({Box("action", {2}, {-1}, {1})});
  const SpecPtr discrete = *MakeSpec({Discrete("action", 2)});
  DING_ASSERT_OK_AND_ASSIGN(const ActorDescription description, DescribeActor(config, *box));
  EXPECT_EQ(description.policy, "test_policy");
  EXPECT_EQ(description.mlp.encoder_hidden_size, (std::vector<int64_t>{7}));
  EXPECT_EQ(description.head, kNormalHead);
  EXPECT_EQ(DescribeActor(config, *discrete)->head, kCategoricalHead);
}

TEST(DescribeActor, NamesThePolicyWhoseDescriptionThrows) {
  const ScopedRegistration<ActorDescriber> throws(
      &ActorDescriberRegistry(), "of_a_user",
      [](const PolicyConfig&, const Spec&) -> absl::StatusOr<ActorDescription> {
        throw std::runtime_error("out of ideas");
      });
  PolicyConfig config;
  config.set_type("of_a_user");
  EXPECT_THAT(DescribeActor(config, **MakeSpec({Discrete("action", 2)})).status(),
              IsInternal("the description of the actor of policy 'of_a_user' threw an "
                         "exception: out of ideas"));
}

TEST(DescribeActor, NamesWhatNoActorPlays) {
  const SpecPtr action = *MakeSpec({Discrete("action", 2)});
  PolicyConfig config;
  config.set_type("other_policy");
  EXPECT_THAT(
      DescribeActor(config, *action).status(),
      IsError(absl::StatusCode::kUnimplemented, "policy 'other_policy' does not describe its actor",
              "DING_REGISTER(ActorDescriberRegistry(), \"other_policy\""));
  config.set_type("test_policy");
  config.set_batch_size(2);
  EXPECT_THAT(
      DescribeActor(config, *action).status(),
      IsError(absl::StatusCode::kUnimplemented, "network 'mine' is not one that actors compute"));
}

TEST(DescribeNetwork, KnowsAllNetworks) {
  NetworkConfig network;
  ActorDescription description;
  network.set_type("torch_cnn");
  network.add_conv()->set_channels(3);
  network.mutable_conv(0)->set_kernel(2);
  ASSERT_THAT(DescribeNetwork(network, &description), IsOk());
  ASSERT_EQ(description.conv.size(), 1u);
  EXPECT_EQ(description.conv[0].channels, 3);
  EXPECT_EQ(description.conv[0].stride, 1);
  EXPECT_EQ(description.mlp.encoder_hidden_size, (std::vector<int64_t>{128, 128, 64}));
  EXPECT_FALSE(description.recurrent.has_value());

  ActorDescription recurrent;
  NetworkConfig rnn;
  rnn.set_type("rnn");
  rnn.mutable_recurrent()->set_cell(RecurrentConfig::GRU);
  rnn.mutable_recurrent()->set_hidden_size(5);
  ASSERT_THAT(DescribeNetwork(rnn, &recurrent), IsOk());
  EXPECT_EQ(recurrent.recurrent->cell, RnnCell::kGru);
  EXPECT_EQ(recurrent.recurrent->hidden_size, 5);
  EXPECT_TRUE(recurrent.mlp.encoder_hidden_size.empty());
}

ActorDescription Everything() {
  ActorDescription description;
  description.policy = "ppo";
  description.parameters = "model/actor_critic";
  description.conv = {{16, 3, 2, 1}};
  description.mlp.encoder_hidden_size = {64, 32};
  description.mlp.activation = MlpOptions::Activation::kTanh;
  description.mlp.head_hidden_size = 7;
  description.mlp.head_layer_num = 2;
  description.mlp.dueling = true;
  description.recurrent = {RnnCell::kGru, 5};
  description.head = kCategoricalHead;
  description.unused_outputs = {"value"};
  description.exploration = {ScheduleKind::kLinear, 0.5, 0.25, 100};
  description.obs_clip = 10;
  return description;
}

TEST(ActorDescription, IsReadAsItWasWritten) {
  const std::string text = ActorDescriptionToJson(Everything());
  EXPECT_EQ(text,
            R"({"version":1,"policy":"ppo","parameters":"model/actor_critic","network":{)"
            R"("encoder_hidden_size":[64,32],"activation":"tanh","head_hidden_size":7,)"
            R"("head_layer_num":2,"dueling":true,"conv":[{"channels":16,"kernel":3,"stride":2,)"
            R"("padding":1}],"recurrent":{"cell":"gru","hidden_size":5}},"head":"categorical",)"
            R"("unused_outputs":["value"],"exploration":{"type":"linear","start":0.5,"end":0.25,)"
            R"("decay":100.0},"obs_clip":10.0})");
  DING_ASSERT_OK_AND_ASSIGN(const ActorDescription read, ActorDescriptionFromJson(text));
  EXPECT_EQ(ActorDescriptionToJson(read), text);
}

TEST(ActorDescription, Distributions_AreReadAsTheyWereWritten) {
  using Kind = ActorDescription::Distribution::Kind;
  ActorDescription description = Everything();
  description.head = kQDistributionHead;
  for (const auto& [distribution, text] :
       std::vector<std::pair<ActorDescription::Distribution, std::string>>{
           {{Kind::kAtoms, 51, -1.5, 2, 0, true},
            R"({"kind":"atoms","size":51,"v_min":-1.5,"v_max":2.0,"noisy":true})"},
           {{Kind::kQuantiles, 200}, R"({"kind":"quantiles","size":200})"},
           {{Kind::kFractions, 32, 0, 0, 64}, R"({"kind":"fractions","size":32,"cosines":64})"}}) {
    description.distribution = distribution;
    const std::string json = ActorDescriptionToJson(description);
    EXPECT_THAT(json, HasSubstr(absl::StrCat("\"distribution\":", text)));
    DING_ASSERT_OK_AND_ASSIGN(const ActorDescription read, ActorDescriptionFromJson(json));
    EXPECT_EQ(ActorDescriptionToJson(read), json);
  }
}

TEST(ActorDescription, DistributionsOutOfRange_AreRefused) {
  ActorDescription description = Everything();
  description.head = kQDistributionHead;
  const std::string without = ActorDescriptionToJson(description);
  const auto expect = [&](const std::string& distribution, const std::string& message) {
    std::string text = without;
    text.insert(1, absl::StrCat("\"distribution\":", distribution, ","));
    EXPECT_THAT(ActorDescriptionFromJson(text).status(), IsInvalid(message));
  };
  EXPECT_THAT(ActorDescriptionFromJson(without).status(), IsInvalid("'distribution' is nothing"));
  expect("3", "'distribution.' is 3, expected an object");
  expect(R"({"kind":"beta","size":2})", "'distribution.kind' is \"beta\", expected 'atoms' or");
  expect(R"({"kind":"quantiles","size":0})", "'distribution.size' is 0, expected a count in 1..");
  expect(R"({"kind":"atoms","size":1,"v_min":0,"v_max":1})", "expected a count in 2..4096");
  expect(R"({"kind":"atoms","size":2,"v_min":1,"v_max":1})", "'distribution.v_max' is 1");
  expect(R"({"kind":"fractions","size":2,"cosines":0})", "'distribution.cosines' is 0");
}

TEST(ActorDescription, MembersOfLaterVersionsAreIgnored) {
  std::string text = ActorDescriptionToJson(Everything());
  text.insert(1, "\"color\":\"red\",");
  EXPECT_THAT(ActorDescriptionFromJson(text), IsOk());
}

TEST(ActorDescription, NamesWhatIsWrong) {
  const std::string good = ActorDescriptionToJson(Everything());
  const auto expect = [&](const std::string& from, const std::string& to,
                          const std::string& message) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    EXPECT_THAT(ActorDescriptionFromJson(text).status(), IsInvalid(message));
  };
  expect("{", "[", "no JSON text");
  expect("\"version\":1,", "", "'version' is nothing, expected it to exist");
  expect("\"version\":1", "\"version\":\"1\"", "'version' is \"1\", expected a count");
  expect("[64,32]", "[64,-1]", "'network.encoder_hidden_size' is [64,-1], expected widths");
  expect("\"gru\"", "\"cfc\"", "'network.recurrent.cell' is \"cfc\", expected 'lstm' or 'gru'");
  expect("\"kernel\":3", "\"kernel\":3.5", "'network.conv.kernel' is 3.5, expected a count");
  expect("\"dueling\":true", "\"dueling\":1", "'network.dueling' is 1, expected true or false");
  expect("\"start\":0.5", "\"start\":1.5", "'exploration.start' is 1.5, expected a probability");
  expect("\"obs_clip\":10.0", "\"obs_clip\":0", "'obs_clip' is 0, expected a number above 0");
  expect("[\"value\"]", "[3]", "'unused_outputs' is [3], expected texts");
}

TEST(ActorDescription, AProblemIsTheReasonWhyNoActorPlays) {
  EXPECT_THAT(ActorDescriptionFromJson(ActorProblemToJson("network 'mine' is special")).status(),
              IsFailedPrecondition("no actor can play it: network 'mine' is special"));
}

// The other heads are tested with the policies that have them (actor_test.cc).
class TanhHeadTest : public testing::Test {
 protected:
  BatchBuilder Outputs(const ActionHead& head, std::vector<std::vector<float>> columns) const {
    BatchBuilder outputs =
        BatchBuilder::Create(*MakeSpec(head.outputs()), static_cast<int64_t>(columns[0].size()) / 2)
            .value();
    for (size_t i = 0; i < columns.size(); ++i) {
      std::copy(columns[i].begin(), columns[i].end(),
                outputs.column<float>(static_cast<int>(i)).begin());
    }
    return outputs;
  }

  const SpecPtr action_ = *MakeSpec({Box("action", {2}, {-2, 0}, {2, 5})});
  const BatchBuilder actions_ = BatchBuilder::Create(action_, 2000).value();
};

TEST_F(TanhHeadTest, TheBestActionIsTheSquashedMean) {
  for (const char* const type : {"tanh", "tanh_normal"}) {
    DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead(type, action_));
    std::vector<std::vector<float>> columns = {{0, 0, 0.5f, -100}};
    if (head->outputs().size() > 1) columns.push_back({1, 1, 1, 1});
    const BatchBuilder outputs = Outputs(*head, columns);
    ASSERT_THAT(head->Best(outputs.view(), {}, actions_.view()), IsOk());
    EXPECT_FLOAT_EQ(actions_.column<float>(0)[0], 0);
    EXPECT_FLOAT_EQ(actions_.column<float>(0)[1], 2.5f);
    EXPECT_FLOAT_EQ(actions_.column<float>(0)[2], 2 * std::tanh(0.5f));
    EXPECT_FLOAT_EQ(actions_.column<float>(0)[3], 0);
  }
}

TEST_F(TanhHeadTest, SamplesHaveTheDeviation) {
  DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead("tanh_normal", action_));
  std::vector<float> mean(4000, 0.25f);
  std::vector<float> log_std(4000);
  for (size_t i = 0; i < 4000; i += 2) log_std[i] = std::log(0.5f);
  for (size_t i = 1; i < 4000; i += 2) log_std[i] = 50;  // clipped
  const BatchBuilder outputs = Outputs(*head, {mean, log_std});
  Rng rng(1, "action_head_test");
  ASSERT_THAT(head->Sample(outputs.view(), {}, 0, &rng, actions_.view()), IsOk());
  double sum[2] = {};
  double squares[2] = {};
  for (size_t i = 0; i < 4000; ++i) {
    const double low = i % 2 == 0 ? -2 : 0;
    const double half = i % 2 == 0 ? 2 : 2.5;
    const double unit = (actions_.column<float>(0)[i] - low) / half - 1;
    const double raw = std::atanh(std::clamp(unit, -1 + 1e-6, 1 - 1e-6));
    sum[i % 2] += raw / 2000;
    squares[i % 2] += raw * raw / 2000;
  }
  EXPECT_NEAR(sum[0], 0.25, 0.05);
  EXPECT_NEAR(std::sqrt(squares[0] - sum[0] * sum[0]), 0.5, 0.03);
  EXPECT_GT(std::sqrt(squares[1]), 3);  // exp(2) = 7.4, of which tanh cuts off much
}

TEST_F(TanhHeadTest, WithoutADeviationSamplesAreTheBestActions) {
  DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead("tanh", action_));
  const BatchBuilder outputs = Outputs(*head, {{0.5f, 0.5f}});
  Rng rng(1, "action_head_test");
  ASSERT_THAT(head->Sample(outputs.view(), {}, 0, &rng, actions_.view()), IsOk());
  EXPECT_FLOAT_EQ(actions_.column<float>(0)[0], 2 * std::tanh(0.5f));
}

// PPO with squashed actions: the deviation is a parameter of the policy.
TEST_F(TanhHeadTest, TheSquashedNormalActsAsTheDistributionOfTheCollectMode) {
  DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead("squashed_normal", action_));
  DING_ASSERT_OK_AND_ASSIGN(
      const auto distribution,
      ActionDistribution::Create(*action_, /*initial_log_std=*/-0.5, /*squash=*/true));
  StateDict model;
  ASSERT_THAT(SaveParameters(distribution->parameter_info(), distribution->parameters(),
                             "distribution", &model),
              IsOk());
  ASSERT_THAT(head->Load(&model), IsOk());
  const BatchBuilder outputs = Outputs(*head, {{0.5f, -100, 0.25f, 1}});
  ASSERT_THAT(head->Best(outputs.view(), {}, actions_.view()), IsOk());
  EXPECT_FLOAT_EQ(actions_.column<float>(0)[0], 2 * std::tanh(0.5f));
  EXPECT_FLOAT_EQ(actions_.column<float>(0)[1], 0);
  Rng rng(1, "action_head_test");
  Rng same = rng;
  ASSERT_THAT(head->Sample(outputs.view(), {}, 0, &rng, actions_.view()), IsOk());
  const auto fields = distribution->sample_fields();
  const BatchBuilder samples =
      BatchBuilder::Create(*MakeSpec({fields.begin(), fields.end()}), 2).value();
  const auto mean = outputs.column<float>(0);
  ASSERT_THAT(distribution->Set(mean, {}), IsOk());
  distribution->Sample(&same, samples.view());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(actions_.column<float>(0)[i], samples.column<float>(0)[i]);
    EXPECT_NE(actions_.column<float>(0)[i], 2 * std::tanh(mean[i]));
  }
}

TEST_F(TanhHeadTest, NamesWhatIsNotFiniteAndWhatDoesNotFit) {
  DING_ASSERT_OK_AND_ASSIGN(const auto head, MakeActionHead("tanh_normal", action_));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const BatchBuilder outputs = Outputs(*head, {{0, 0, 0, 0}, {0, 0, 0, nan}});
  EXPECT_THAT(head->Best(outputs.view(), {}, actions_.view()),
              IsInternal("'log_std' of row 1 is nan"));
  const SpecPtr discrete = *MakeSpec({Discrete("action", 2)});
  for (const char* const type : {"tanh", "tanh_normal", "normal", "squashed_normal"}) {
    EXPECT_THAT(MakeActionHead(type, discrete).status(), IsInvalid(type));
  }
  for (const char* const type : {"q", "categorical"}) {
    EXPECT_THAT(MakeActionHead(type, action_).status(), IsInvalid(type));
  }
}

}  // namespace
}  // namespace ding
