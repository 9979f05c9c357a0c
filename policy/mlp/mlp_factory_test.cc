#include <memory>

#include "absl/status/status.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<std::unique_ptr<Network>> Create(const NetworkConfig& config) {
  return create_network(config, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})}), 0);
}

TEST(MlpFactoryTest, IsTheDefaultNetwork) {
  NetworkConfig config;
  for (const int64_t width : {128, 128, 64}) config.add_encoder_hidden_size(width);
  config.set_dueling(true);
  config.set_activation(NetworkConfig::TANH);
  config.set_head_hidden_size(32);
  config.set_head_layer_num(2);
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create(config));
  EXPECT_EQ(network->info(), "mlp 4-128-128-64 tanh, dueling q 32-32-2: 31,779 parameters");
}

TEST(MlpFactoryTest, HasAnEncoderByDefault) {
  NetworkConfig config;
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create(config));
  EXPECT_THAT(network->info(), HasSubstr("mlp 4-128-128-64, q 64-2"));
  config.set_head_layer_num(0);
  DING_ASSERT_OK_AND_ASSIGN(const auto linear, Create(config));
  EXPECT_THAT(linear->info(), Not(HasSubstr("128"))) << "one layer, without hidden ones";
}

TEST(MlpFactoryTest, ReportsEveryProblemAtOnce) {
  NetworkConfig config;
  config.add_encoder_hidden_size(-3);
  config.set_head_layer_num(-1);
  EXPECT_THAT(Create(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("encoder_hidden_size[0] is -3"),
                                             HasSubstr("head_layer_num is -1"))));
}

TEST(MlpFactoryTest, RefusesParams) {
  NetworkConfig config;
  config.add_encoder_hidden_size(8);
  config.mutable_params()->set_type_url("type.googleapis.com/mine.Config");
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mine.Config")));
}

TEST(MlpFactoryTest, RefusesConvolutions) {
  NetworkConfig config;
  config.add_encoder_hidden_size(8);
  config.add_conv()->set_channels(16);
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'mlp' has no convolutions")));
}

TEST(MlpFactoryTest, RefusesARecurrentLayer) {
  NetworkConfig config;
  config.add_encoder_hidden_size(8);
  config.mutable_recurrent();
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'mlp' has no recurrent layer"), HasSubstr("type 'rnn'"))));
}

TEST(MlpFactoryTest, ATorchNetworkNamesTheProgramThatHasIt) {
  NetworkConfig config;
  config.set_type("torch_cnn");
  EXPECT_THAT(Create(config), StatusIs(absl::StatusCode::kNotFound,
                                       AllOf(HasSubstr("unknown network type 'torch_cnn'"),
                                             HasSubstr("//worker:serial_torch"))));
}

TEST(MlpFactoryTest, AnUnknownTypeListsTheLinkedOnes) {
  NetworkConfig config;
  config.set_type("mpl");
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("mpl"), HasSubstr("mlp"))));
}

}  // namespace
}  // namespace ding
