#include "ding_worker/policy/actor/actor_description.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::HasSubstr;

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
    EXPECT_THAT(ActorDescriptionFromJson(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  EXPECT_THAT(ActorDescriptionFromJson(without).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'distribution' is nothing")));
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
    EXPECT_THAT(ActorDescriptionFromJson(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
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
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no actor can play it: network 'mine' is special")));
}

}  // namespace
}  // namespace ding
