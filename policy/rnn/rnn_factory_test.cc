#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

absl::StatusOr<std::unique_ptr<Network>> Create(const NetworkConfig& config) {
  return create_network(config, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})}), 0);
}

NetworkConfig Config() {
  NetworkConfig config;
  config.set_type("rnn");
  config.add_encoder_hidden_size(32);
  return config;
}

TEST(RnnFactoryTest, IsAnLstmOfWidth64IfTheConfigDoesNotSay) {
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create(Config()));
  EXPECT_EQ(network->info(), "rnn lstm 64 in 4-32, q 64-2: 29,282 parameters");
  EXPECT_NE(AsRecurrent(network.get()), nullptr);
}

TEST(RnnFactoryTest, ReadsAllFields) {
  NetworkConfig config = Config();
  config.mutable_recurrent()->set_cell(RecurrentConfig::GRU);
  config.mutable_recurrent()->set_hidden_size(16);
  config.set_dueling(true);
  config.set_activation(NetworkConfig::TANH);
  config.set_head_hidden_size(8);
  config.set_head_layer_num(2);
  DING_ASSERT_OK_AND_ASSIGN(const auto network, Create(config));
  EXPECT_THAT(network->info(), HasSubstr("rnn gru 16 in 4-32 tanh, dueling q 8-8-2: "));
}

TEST(RnnFactoryTest, ReportsEveryProblemAtOnce) {
  NetworkConfig config = Config();
  config.mutable_recurrent()->set_hidden_size(0);
  config.set_head_layer_num(-1);
  EXPECT_THAT(Create(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("recurrent.hidden_size is 0"),
                                             HasSubstr("head_layer_num is -1"))));
}

TEST(RnnFactoryTest, RefusesParamsAndConvolutions) {
  NetworkConfig config = Config();
  config.mutable_params()->set_type_url("type.googleapis.com/mine.Config");
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("mine.Config")));
  config = Config();
  config.add_conv()->set_channels(16);
  EXPECT_THAT(Create(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'rnn' has no convolutions")));
}

}  // namespace
}  // namespace ding
