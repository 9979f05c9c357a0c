#include "ding_worker/policy/actor/describe_actor.h"

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor_description.h"
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
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("the description of the actor of policy 'of_a_user' threw an "
                                 "exception: out of ideas")));
}

TEST(DescribeActor, NamesWhatNoActorPlays) {
  const SpecPtr action = *MakeSpec({Discrete("action", 2)});
  PolicyConfig config;
  config.set_type("other_policy");
  EXPECT_THAT(DescribeActor(config, *action).status(),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("policy 'other_policy' does not describe its actor")));
  config.set_type("test_policy");
  config.set_batch_size(2);
  EXPECT_THAT(DescribeActor(config, *action).status(),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("network 'mine' is not one that actors compute")));
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

}  // namespace
}  // namespace ding
