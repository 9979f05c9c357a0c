#include "ding_worker/policy/torch/torch_network.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/torch/torch_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "torch/nn/modules/activation.h"
#include "torch/nn/modules/batchnorm.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/conv.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/modules/rnn.h"

namespace ding {
namespace {

SpecPtr SpecOf(std::vector<FieldSpec> fields) { return *MakeSpec(std::move(fields)); }

// A module that reads images and a vector and computes a policy and a value. It uses one parameter
// twice and one never.
class ConvAndVector : public torch::nn::Module {
 public:
  ConvAndVector()
      : conv_(register_module("conv", torch::nn::Conv2d(2, 3, 3))),
        joined_(register_module("joined", torch::nn::Linear(3 * 4 * 4 + 5, 8))),
        square_(register_module("square", torch::nn::Linear(8, 8))),
        policy_(register_module("policy", torch::nn::Linear(8, 4))),
        value_(register_module("value", torch::nn::Linear(8, 1))) {}

  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) {
    const at::Tensor image = at::tanh(conv_->forward(inputs[0])).flatten(1);
    at::Tensor hidden = at::tanh(joined_->forward(at::cat({image, inputs[1]}, 1)));
    hidden = at::tanh(square_->forward(at::tanh(square_->forward(hidden))));
    return {policy_->forward(hidden), value_->forward(hidden).squeeze(1)};
  }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::Linear joined_;
  torch::nn::Linear square_;
  torch::nn::Linear policy_;
  torch::nn::Linear value_;
};

// An LSTM over a sequence of 5 steps of 3 numbers.
class LastOfLstm : public torch::nn::Module {
 public:
  LastOfLstm()
      : lstm_(register_module("lstm",
                              torch::nn::LSTM(torch::nn::LSTMOptions(3, 6).batch_first(true)))),
        head_(register_module("head", torch::nn::Linear(6, 2))) {}

  at::Tensor forward(const at::Tensor& sequence) {
    const at::Tensor all = std::get<0>(lstm_->forward(sequence));
    return head_->forward(all.select(1, 4));
  }

 private:
  torch::nn::LSTM lstm_;
  torch::nn::Linear head_;
};

absl::StatusOr<std::unique_ptr<Network>> MakeConv(uint64_t seed) {
  const auto make = [] {
    auto module = std::make_shared<ConvAndVector>();
    return TorchModule{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                         return module->Forward(inputs);
                       }};
  };
  return MakeTorchNetwork("conv", make, SpecOf({Box("obs/image", {2, 6, 6}), Box("obs/x", {5})}),
                          SpecOf({Box("logit", {4}), Box("value", {})}), seed);
}

absl::StatusOr<std::unique_ptr<Network>> MakeSequential(uint64_t seed) {
  const auto make = [] {
    return WrapTorchModule(torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::Tanh(),
                                                 torch::nn::Linear(16, 2)));
  };
  return MakeTorchNetwork("sequential", make, SpecOf({Box("obs", {4})}), SpecOf({Box("q", {2})}),
                          seed);
}

absl::StatusOr<std::unique_ptr<Network>> MakeLstm(uint64_t seed) {
  const auto make = [] { return WrapTorchModule(std::make_shared<LastOfLstm>()); };
  return MakeTorchNetwork("lstm", make, SpecOf({Box("obs", {5, 3})}), SpecOf({Box("q", {2})}),
                          seed);
}

NetworkCase CaseOf(const char* name, absl::StatusOr<std::unique_ptr<Network>> (*make)(uint64_t)) {
  return {name, [make]() -> std::unique_ptr<Network> {
            auto network = make(1);
            EXPECT_THAT(network, IsOk());
            return *std::move(network);
          }};
}

INSTANTIATE_TEST_SUITE_P(Torch, NetworkConformance,
                         testing::Values(CaseOf("Sequential", MakeSequential),
                                         CaseOf("Conv", MakeConv), CaseOf("Lstm", MakeLstm)),
                         NetworkCaseName);

TEST(TorchNetworkTest, InitialParametersComeFromTheSeed) {
  DING_ASSERT_OK_AND_ASSIGN(const auto a, MakeSequential(1));
  DING_ASSERT_OK_AND_ASSIGN(const auto b, MakeSequential(1));
  DING_ASSERT_OK_AND_ASSIGN(const auto c, MakeSequential(2));
  EXPECT_EQ(a->parameters(), b->parameters());
  EXPECT_NE(a->parameters(), c->parameters());
}

TEST(TorchNetworkTest, NamesParametersWithSlashes) {
  DING_ASSERT_OK_AND_ASSIGN(const auto network, MakeConv(1));
  EXPECT_EQ(network->parameter_info()[0].name, "conv/weight");
  EXPECT_EQ(network->parameter_info()[0].shape, Shape({3, 2, 3, 3}));
  EXPECT_EQ(network->parameter_info()[1].name, "conv/bias");
}

TEST(TorchNetworkTest, UsesOneThreadByDefault) {
  DING_ASSERT_OK_AND_ASSIGN(const auto network, MakeSequential(1));
  EXPECT_EQ(GetTorchThreads(), 1);
  SetTorchThreads(2);
  EXPECT_EQ(GetTorchThreads(), 2);
  DING_ASSERT_OK_AND_ASSIGN(const auto another, MakeSequential(1));
  EXPECT_EQ(GetTorchThreads(), 2);
  SetTorchThreads(1);
}

// A linear layer that a test can make fail.
class Spoilt : public torch::nn::Module {
 public:
  enum class How {
    kNot,
    kThrow,
    kThrowNumber,
    kWrongShape,
    kWrongType,
    kNoOutput,
    kReplaceGradient,
    kFrozen
  };
  explicit Spoilt(const How* how)
      : how_(how), linear_(register_module("linear", torch::nn::Linear(3, 2))) {}

  std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) {
    at::Tensor output = linear_->forward(inputs[0]);
    switch (*how_) {
      case How::kNot:
        return {output};
      case How::kThrow:
        throw std::runtime_error("the module is out of sorts");
      case How::kThrowNumber:
        throw 42;
      case How::kWrongShape:
        return {output.sum(1)};
      case How::kWrongType:
        return {output.to(at::kDouble)};
      case How::kNoOutput:
        return {};
      case How::kReplaceGradient:
        linear_->weight.mutable_grad() = at::Tensor();
        return {output};
      case How::kFrozen:
        return {output.detach()};
    }
    return {};
  }

 private:
  const How* const how_;
  torch::nn::Linear linear_;
};

class SpoiltTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto make = [this] {
      auto module = std::make_shared<Spoilt>(&how_);
      return TorchModule{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                           return module->Forward(inputs);
                         }};
    };
    auto network =
        MakeTorchNetwork("spoilt", make, SpecOf({Box("obs", {3})}), SpecOf({Box("q", {2})}), 0);
    ASSERT_THAT(network, IsOk());
    network_ = *std::move(network);
    for (float& value : input_.column<float>(0)) value = 0.5f;
  }

  std::vector<float> Gradients() {
    EXPECT_THAT(network_->Forward(input_.view(), output_.view()), IsOk());
    EXPECT_THAT(network_->Backward(output_.view()), IsOk());
    return {network_->gradients().begin(), network_->gradients().end()};
  }

  Spoilt::How how_ = Spoilt::How::kNot;
  std::unique_ptr<Network> network_;
  BatchBuilder input_ = *BatchBuilder::Create(SpecOf({Box("obs", {3})}), 4);
  BatchBuilder output_ = *BatchBuilder::Create(SpecOf({Box("q", {2})}), 4);
};

TEST_F(SpoiltTest, FailuresOfAModuleBecomeErrors) {
  const struct {
    Spoilt::How how;
    const char* message;
  } cases[] = {{Spoilt::How::kThrow, "the module is out of sorts"},
               {Spoilt::How::kThrowNumber, "not a std::exception"},
               {Spoilt::How::kWrongShape, "output 'q' is Float[4], expected Float[4, 2]"},
               {Spoilt::How::kWrongType, "output 'q' is Double[4, 2], expected Float[4, 2]"},
               {Spoilt::How::kNoOutput, "0 outputs, expected 1"}};
  for (const auto& test_case : cases) {
    how_ = test_case.how;
    const auto fails = IsInternal("'spoilt'", test_case.message);
    EXPECT_THAT(network_->Infer(input_.view(), output_.view()), fails);
    EXPECT_THAT(network_->Forward(input_.view(), output_.view()), fails);
    EXPECT_THAT(network_->Backward(output_.view()), IsFailedPrecondition());
  }
  how_ = Spoilt::How::kNot;
  EXPECT_THAT(network_->Infer(input_.view(), output_.view()), IsOk());
}

TEST_F(SpoiltTest, GradientsAreCopiedBackIfTheModuleRemovesTheirTensor) {
  const std::vector<float> expected = Gradients();
  how_ = Spoilt::How::kReplaceGradient;
  EXPECT_EQ(Gradients(), expected);
  how_ = Spoilt::How::kNot;
  EXPECT_EQ(Gradients(), expected);
}

TEST_F(SpoiltTest, OutputsWithoutParametersHaveGradientZero) {
  how_ = Spoilt::How::kFrozen;
  EXPECT_THAT(Gradients(), testing::Each(0.0f));
}

TEST(TorchNetworkTest, RefusesModulesThatItCannotSave) {
  const SpecPtr input = SpecOf({Box("obs", {4})});
  const SpecPtr output = SpecOf({Box("q", {4})});
  EXPECT_THAT(
      MakeTorchNetwork(
          "norm", [] { return WrapTorchModule(torch::nn::BatchNorm1d(4)); }, input, output, 0),
      IsInvalid("buffer 'running_mean'"));
  EXPECT_THAT(MakeTorchNetwork(
                  "relu", [] { return WrapTorchModule(torch::nn::ReLU()); }, input, output, 0),
              IsInvalid("no parameters"));
  EXPECT_THAT(MakeTorchNetwork(
                  "double",
                  [] {
                    torch::nn::Linear linear(4, 4);
                    linear->to(at::kDouble);
                    return WrapTorchModule(linear);
                  },
                  input, output, 0),
              IsInvalid("parameter 'weight' is Double on cpu"));
  EXPECT_THAT(MakeTorchNetwork(
                  "throws", []() -> TorchModule { throw std::runtime_error("no weights file"); },
                  input, output, 0),
              IsInternal("no weights file"));
  EXPECT_THAT(MakeTorchNetwork(
                  "none", [] { return TorchModule(); }, input, output, 0),
              IsInvalid("no module"));
}

// The module gets integers and bytes unchanged.
TEST(TorchNetworkTest, InputsOfEveryType) {
  class Sum : public torch::nn::Module {
   public:
    Sum() : scale_(register_parameter("scale", at::ones({1}))) {}
    std::vector<at::Tensor> Forward(const std::vector<at::Tensor>& inputs) {
      EXPECT_EQ(inputs[0].scalar_type(), at::kByte);
      EXPECT_EQ(inputs[1].scalar_type(), at::kLong);
      return {scale_ * (inputs[0].to(at::kFloat).sum(1) + inputs[1].to(at::kFloat))};
    }

   private:
    at::Tensor scale_;
  };
  const auto make = [] {
    auto module = std::make_shared<Sum>();
    return TorchModule{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                         return module->Forward(inputs);
                       }};
  };
  FieldSpec image;
  image.name = "image";
  image.dtype = DType::kUint8;
  image.shape = {3};
  const SpecPtr input = SpecOf({image, Discrete("room", 7)});
  DING_ASSERT_OK_AND_ASSIGN(const auto network,
                            MakeTorchNetwork("sum", make, input, SpecOf({Box("value", {})}), 0));
  DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder rows, BatchBuilder::Create(input, 2));
  DING_ASSERT_OK_AND_ASSIGN(const BatchBuilder output,
                            BatchBuilder::Create(network->output_spec(), 2));
  const std::vector<uint8_t> bytes = {1, 2, 3, 200, 250, 255};
  std::copy(bytes.begin(), bytes.end(), rows.column<uint8_t>(0).begin());
  rows.column<int64_t>(1)[0] = 4;
  rows.column<int64_t>(1)[1] = 6;
  ASSERT_THAT(network->Infer(rows.view(), output.view()), IsOk());
  EXPECT_THAT(output.column<float>(0), testing::ElementsAre(10, 711));
}

}  // namespace
}  // namespace ding
