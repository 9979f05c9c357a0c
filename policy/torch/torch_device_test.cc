#include "ding_worker/policy/torch/torch_device.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/dqn/dqn.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/optimizer.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/q_learning/q_policy.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/network_test_cases.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/recurrent_conformance.h"
#include "ding_worker/policy/torch/torch_models.h"
#include "ding_worker/policy/torch/torch_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "torch/nn/module.h"

namespace ding {
namespace {

using testing::ElementsAreArray;
using testing::FloatNear;
using testing::Not;
using testing::Pointwise;

constexpr uint64_t kSeed = 7;
constexpr int64_t kRows = 32;
// As on a GPU: the parameters and all columns are copied.
const TorchOptions kCopies = {"cpu", /*copies=*/true};

std::unique_ptr<Network> CreateMlp(const MlpTestCase& test_case, const TorchOptions& torch) {
  auto network = CreateTorchMlp(test_case.options, *MakeSpec(test_case.input),
                                *MakeSpec(test_case.output), kSeed, torch);
  EXPECT_THAT(network, IsOk());
  return *std::move(network);
}

// The first GPU if there is one.
std::vector<TorchOptions> Gpus() {
  return CountTorchGpus() > 0 ? std::vector<TorchOptions>{{"cuda:0"}} : std::vector<TorchOptions>{};
}

std::vector<TorchOptions> Devices() {
  std::vector<TorchOptions> devices = Gpus();
  devices.push_back(kCopies);
  return devices;
}

std::unique_ptr<RecurrentNetwork> CreateRnn(const RnnTestCase& test_case,
                                            const TorchOptions& torch) {
  auto network = CreateTorchRnn(test_case.options, *MakeSpec(test_case.mlp.input),
                                *MakeSpec(test_case.mlp.output), kSeed, torch);
  EXPECT_THAT(network, IsOk());
  return *std::move(network);
}

std::vector<NetworkCase> MlpCases(const TorchOptions& torch) {
  return MlpNetworkCases(
      [torch](const MlpTestCase& test_case) { return CreateMlp(test_case, torch); });
}

std::vector<NetworkCase> RnnCases(const TorchOptions& torch) {
  return RnnNetworkCases(
      [torch](const RnnTestCase& test_case) { return CreateRnn(test_case, torch); });
}

std::vector<NetworkCase> GpuCases() {
  std::vector<NetworkCase> cases;
  for (const TorchOptions& gpu : Gpus()) {
    for (NetworkCase& each : MlpCases(gpu)) cases.push_back({"Mlp" + each.name, each.create});
    for (NetworkCase& each : RnnCases(gpu)) cases.push_back({"Rnn" + each.name, each.create});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(MlpWithCopies, NetworkConformance, testing::ValuesIn(MlpCases(kCopies)),
                         NetworkCaseName);
INSTANTIATE_TEST_SUITE_P(RnnWithCopies, NetworkConformance, testing::ValuesIn(RnnCases(kCopies)),
                         NetworkCaseName);
INSTANTIATE_TEST_SUITE_P(OnAGpu, NetworkConformance, testing::ValuesIn(GpuCases()),
                         NetworkCaseName);
INSTANTIATE_TEST_SUITE_P(RnnWithCopies, RecurrentConformance,
                         testing::ValuesIn(RnnRecurrentCases([](const RnnTestCase& test_case) {
                           return CreateRnn(test_case, kCopies);
                         })),
                         RecurrentCaseName);

// The bytes of outputs and gradients, of two updates by a fixed step.
TEST(TorchDeviceTest, CopiesComputeTheSameAsNetworksInPlace) {
  for (const MlpTestCase& test_case : MlpTestCases()) {
    const std::unique_ptr<Network> in_place = CreateMlp(test_case, {});
    const std::unique_ptr<Network> copying = CreateMlp(test_case, kCopies);
    const BatchBuilder input = NormalRows(in_place->input_spec(), kRows, Rng(kSeed, "input"));
    const BatchBuilder d_output = NormalRows(in_place->output_spec(), kRows, Rng(kSeed, "d"));
    std::vector<std::vector<float>> found;
    for (Network* const network : {in_place.get(), copying.get()}) {
      const BatchBuilder output = NormalRows(network->output_spec(), kRows, Rng(kSeed, "output"));
      for (int update = 0; update < 2; ++update) {
        ASSERT_THAT(network->Forward(input.view(), output.view()), IsOk());
        ASSERT_THAT(network->Backward(d_output.view()), IsOk());
        const absl::Span<float> parameters = network->parameters();
        for (size_t i = 0; i < parameters.size(); ++i) {
          parameters[i] -= 0.1f * network->gradients()[i];
        }
      }
      const absl::Span<const float> first = output.column<float>(0);
      found.emplace_back(first.begin(), first.end());
      found.emplace_back(network->gradients().begin(), network->gradients().end());
      found.emplace_back(network->parameters().begin(), network->parameters().end());
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], found[i + 3]) << test_case.name;
  }
}

std::unique_ptr<Network> QNetworkOn(const TorchOptions& torch, uint64_t seed = kSeed) {
  MlpOptions options;
  options.encoder_hidden_size = {16};
  return *CreateTorchMlp(options, VectorObservation(), *MakeSpec({Box("q", {3})}), seed, torch);
}

std::unique_ptr<DqnPolicy> DqnOn(const TorchOptions& torch, const DqnOptions& options) {
  return *DqnPolicy::Create(QNetworkOn(torch), DiscreteAction(3), options);
}

void Learn(DqnPolicy* policy, int updates) {
  std::vector<LearnStep> steps;
  for (int i = 0; i < updates; ++i) {
    const Batch batch = MakeTransitionBatch(VectorObservation(), DiscreteAction(3), kRows, i);
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  }
}

StateDict StateOf(DqnPolicy* policy) {
  StateDict state;
  EXPECT_THAT(policy->learn_mode()->SaveModel(&state), IsOk());
  EXPECT_THAT(policy->learn_mode()->SaveTrainState(&state), IsOk());
  return state;
}

void ExpectNear(const StateDict& found, const StateDict& expected) {
  ASSERT_EQ(found.Names(), expected.Names());
  for (const std::string& name : found.Names()) {
    const Tensor& tensor = *found.tensors().Find(name);
    if (tensor.dtype() != DType::kFloat32) continue;
    EXPECT_THAT(tensor.data<float>(),
                Pointwise(FloatNear(1e-4f), expected.tensors().Find(name)->data<float>()))
        << name;
  }
}

// Moments, target network and all.
TEST(TorchDeviceTest, LearnsOnTheDeviceAsOnTheHost) {
  for (const TorchOptions& device : Devices()) {
    for (const double clip : {0.0, 0.2}) {
      for (const TargetUpdate& target : {TargetUpdate{10, 0}, TargetUpdate{0, 0.1}}) {
        DqnOptions options;
        options.grad_clip_norm = clip;
        options.target_update = target;
        options.adam.weight_decay = 0.01;
        const auto policy = DqnOn(device, options);
        const auto expected = DqnOn({}, options);
        Learn(policy.get(), 25);
        Learn(expected.get(), 25);
        ExpectNear(StateOf(policy.get()), StateOf(expected.get()));
      }
    }
  }
}

TEST(TorchDeviceTest, GoesOnFromASavedState) {
  for (const TorchOptions& device : Devices()) {
    const auto policy = DqnOn(device, {});
    Learn(policy.get(), 5);
    StateDict state = StateOf(policy.get());
    const auto resumed = DqnOn(device, {});
    Learn(resumed.get(), 2);  // what it has learned is forgotten
    StateDict model;
    ASSERT_THAT(policy->learn_mode()->SaveModel(&model), IsOk());
    ASSERT_THAT(resumed->learn_mode()->LoadModel(&model), IsOk());
    ASSERT_THAT(resumed->learn_mode()->LoadTrainState(&state), IsOk());
    Learn(policy.get(), 5);
    Learn(resumed.get(), 5);
    ExpectNear(StateOf(resumed.get()), StateOf(policy.get()));
  }
}

// Two networks, and numbers on the host.
struct Groups {
  explicit Groups(const TorchOptions& torch) : a(QNetworkOn(torch)), b(QNetworkOn(torch, 8)) {
    adam.emplace(*GroupAdam::Create({ParametersOf("a", a.get()),
                                     ParametersOf("b", b.get()),
                                     {"c", {}, absl::MakeSpan(c), absl::MakeSpan(d_c)}},
                                    {}, /*grad_clip_norm=*/0.5));
  }

  std::unique_ptr<Network> a;
  std::unique_ptr<Network> b;
  std::vector<float> c = {1, 2};
  std::vector<float> d_c = {0.3f, -0.4f};
  std::optional<GroupAdam> adam;
};

void PassThrough(Network* network) {
  const BatchBuilder input = NormalRows(network->input_spec(), kRows, Rng(kSeed, "input"));
  const BatchBuilder output = NormalRows(network->output_spec(), kRows, Rng(kSeed, "output"));
  ASSERT_THAT(network->Forward(input.view(), output.view()), IsOk());
  ASSERT_THAT(network->Backward(output.view()), IsOk());
}

TEST(TorchDeviceTest, GroupsStepByOneNorm) {
  for (const TorchOptions& device : Devices()) {
    Groups found(device);
    Groups expected({});
    for (int step = 0; step < 3; ++step) {
      double norm = 0;
      double expected_norm = 0;
      for (Groups* const groups : {&found, &expected}) {
        groups->d_c = {0.3f, -0.4f};
        PassThrough(groups->a.get());
        PassThrough(groups->b.get());
        // As a group of learners does, which averages them on the host.
        for (const absl::Span<float> each : groups->adam->gradients()) {
          for (float& value : each) value *= 0.5f;
        }
        ASSERT_THAT(groups->adam->Step(groups == &found ? &norm : &expected_norm), IsOk());
      }
      EXPECT_NEAR(norm, expected_norm, 1e-4 * norm);
    }
    EXPECT_THAT(found.a->parameters(), Pointwise(FloatNear(1e-4f), expected.a->parameters()));
    EXPECT_THAT(found.b->parameters(), Pointwise(FloatNear(1e-4f), expected.b->parameters()));
    EXPECT_THAT(found.c, Pointwise(FloatNear(1e-4f), expected.c));
  }
}

TEST(TorchDeviceTest, GradientsThatAreNotFiniteChangeNothing) {
  for (const TorchOptions& device : Devices()) {
    const std::unique_ptr<Network> network = QNetworkOn(device);
    GroupAdam adam = *GroupAdam::Create({ParametersOf("q", network.get())}, {}, 0);
    const std::vector<float> before(network->parameters().begin(), network->parameters().end());
    const BatchBuilder input = NormalRows(network->input_spec(), kRows, Rng(kSeed, "input"));
    const BatchBuilder output = NormalRows(network->output_spec(), kRows, Rng(kSeed, "output"));

    network->gradients()[3] = std::numeric_limits<float>::quiet_NaN();
    double norm = 0;
    EXPECT_THAT(adam.Step(&norm), IsInternal("gradient 3 of 403 of 'q' is nan"));
    ASSERT_THAT(adam.Step(), IsOk()) << "nobody has waited for the device";
    std::fill(network->gradients().begin(), network->gradients().end(), 1.0f);
    ASSERT_THAT(adam.Step(), IsOk());
    EXPECT_THAT(network->parameters(), ElementsAreArray(before));
    EXPECT_THAT(network->Infer(input.view(), output.view()),
                IsInternal("the gradient of an earlier step was not finite"));

    ASSERT_THAT(adam.Step(), IsOk());
    EXPECT_THAT(network->Infer(input.view(), output.view()), IsOk());
    EXPECT_THAT(network->parameters(), Not(ElementsAreArray(before)));
  }
}

// Some go through pinned memory, with and without autograd.
TEST(TorchDeviceTest, CopiesColumnsOfEverySize) {
  MlpOptions mlp;
  mlp.encoder_hidden_size = {8};
  const SpecPtr input_spec = VectorObservation(64);
  const SpecPtr output_spec = *MakeSpec({Box("q", {32})});
  const auto in_place = *CreateTorchMlp(mlp, input_spec, output_spec, kSeed);
  for (const TorchOptions& device : Devices()) {
    const auto network = *CreateTorchMlp(mlp, input_spec, output_spec, kSeed, device);
    for (const int64_t rows : {2, 2000, 300, 3000, 20}) {
      const BatchBuilder input = NormalRows(input_spec, rows, Rng(kSeed, "input"));
      std::vector<BatchBuilder> outputs;
      for (Network* const each : {in_place.get(), network.get()}) {
        for (int pass = 0; pass < 2; ++pass) {
          outputs.push_back(NormalRows(output_spec, rows, Rng(kSeed, "output")));
          ASSERT_THAT(pass == 0 ? each->Infer(input.view(), outputs.back().view())
                                : each->Forward(input.view(), outputs.back().view()),
                      IsOk());
        }
        ASSERT_THAT(each->Backward(outputs.back().view()), IsOk());
      }
      for (int pass = 0; pass < 2; ++pass) {
        EXPECT_THAT(outputs[pass + 2].column<float>(0),
                    Pointwise(FloatNear(1e-4f), outputs[pass].column<float>(0)))
            << rows;
      }
      EXPECT_THAT(network->gradients(), Pointwise(FloatNear(1e-2f), in_place->gradients()));
    }
  }
}

TEST(TorchDeviceTest, ErrorsOfAGpuSayWhatToDo) {
  EXPECT_THAT(TorchError("net", "CUDA out of memory. Tried to allocate 2 GiB\nmore"),
              IsResourceExhausted("net: the memory of the GPU is full, expected room"));
  EXPECT_THAT(TorchError("net", "CUDA error: unspecified launch failure\nCUDA kernel errors"),
              IsUnavailable("resume the run (CUDA error: unspecified launch failure)"));
  EXPECT_THAT(TorchError("net", "size mismatch"), IsInternal("net: size mismatch"));
}

// A batch that no GPU has memory for leaves the network as it was.
TEST(TorchDeviceTest, AFullGpuChangesNothing) {
  if (Gpus().empty()) GTEST_SKIP() << "there is no GPU";
  MlpOptions options;
  options.encoder_hidden_size = {1 << 20};
  options.head_layer_num = 0;
  const std::unique_ptr<Network> network =
      *CreateTorchMlp(options, VectorObservation(), *MakeSpec({Box("q", {3})}), 0, Gpus()[0]);
  const std::vector<float> before(network->parameters().begin(), network->parameters().end());
  constexpr int64_t kTooMany = 1 << 17;  // 512 GiB in the hidden layer
  const BatchBuilder input = NormalRows(network->input_spec(), kTooMany, Rng(kSeed, "input"));
  const BatchBuilder output = NormalRows(network->output_spec(), kTooMany, Rng(kSeed, "output"));
  EXPECT_THAT(network->Forward(input.view(), output.view()), IsResourceExhausted("GPU is full"));
  EXPECT_THAT(network->parameters(), ElementsAreArray(before));
  PassThrough(network.get());
}

// Reads memory that does not exist when it is told to, after which the process has lost the GPU.
class LosingModule : public torch::nn::Module {
 public:
  LosingModule() : weight_(register_parameter("weight", at::ones({4}))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor index = input.select(1, 0).to(at::kLong);
    return weight_.index_select(0, index).unsqueeze(1);
  }

 private:
  const at::Tensor weight_;
};

void LoseTheGpu() {
  const auto network = *MakeTorchNetwork(
      "losing", [] { return WrapTorchModule(std::make_shared<LosingModule>()); },
      *MakeSpec({Box("obs", {1})}), *MakeSpec({Box("q", {1})}), 0, Gpus()[0]);
  const BatchBuilder output = NormalRows(network->output_spec(), 1, Rng(kSeed, "output"));
  const BatchBuilder input = NormalRows(network->input_spec(), 1, Rng(kSeed, "input"));
  input.column<float>(0)[0] = 0;
  bool good = network->Infer(input.view(), output.view()).ok();
  GroupAdam adam = *GroupAdam::Create({ParametersOf("q", network.get())}, {}, 0);
  good = good && adam.Step().ok();  // the newest parameters are on the GPU alone
  input.column<float>(0)[0] = 1e6f;
  const absl::Status lost = network->Infer(input.view(), output.view());
  StateDict state;
  const absl::Status saved = SaveParameters(
      network->parameter_info(), std::as_const(*network).parameters(), kModelScope, &state);
  std::fprintf(stderr, "%d | %s | %s\n", good, lost.ToString().c_str(), saved.ToString().c_str());
  std::_Exit(0);
}

TEST(TorchDeviceDeathTest, ALostGpuIsNotSaved) {
  if (Gpus().empty()) GTEST_SKIP() << "there is no GPU";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(LoseTheGpu(), testing::ExitedWithCode(0),
              "1 . UNAVAILABLE: torch network 'losing': the GPU has failed or is lost.* . "
              "INTERNAL: 'model/weight' is not finite, expected finite values to save");
}

TEST(TorchDeviceTest, RefusesNamesThatAreNone) {
  EXPECT_THAT(CheckTorchDevice("cpu"), IsOk());
  for (const char* const name : {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:+1",
                                 "cuda: 1", "cuda:1.5", "cuda:128", "cuda:99999999999"}) {
    EXPECT_THAT(CheckTorchDevice(name),
                IsInvalid(absl::StrCat("device is '", name, "', expected 'cpu', or")));
  }
}

TEST(TorchDeviceTest, RefusesGpusThatAreNotThere) {
  const int gpus = CountTorchGpus();
  EXPECT_THAT(CheckTorchDevice(absl::StrCat("cuda:", gpus)),
              IsInvalid(gpus == 0 ? "this libtorch has no CUDA" : "this machine has "));
  if (gpus > 0) {
    EXPECT_THAT(CheckTorchDevice("cuda"), IsOk());
    EXPECT_THAT(CheckTorchDevice(absl::StrCat("cuda:", gpus - 1)), IsOk());
  }
}

TEST(TorchDeviceTest, NetworksTakeTheDeviceOfTheirConfig) {
  const SpecPtr input = *MakeSpec({Box("obs", {4})});
  const SpecPtr picture = *MakeSpec({Box("obs", {1, 4, 4})});
  const SpecPtr output = *MakeSpec({Box("q", {2})});
  NetworkConfig config;
  config.set_device("cuda:100");
  config.add_encoder_hidden_size(8);
  for (const char* const type : {"torch_mlp", "torch_rnn", "torch_cnn"}) {
    config.set_type(type);
    config.clear_conv();
    const bool convolves = config.type() == "torch_cnn";
    if (convolves) config.add_conv()->set_channels(2);
    if (convolves) config.mutable_conv(0)->set_kernel(2);
    EXPECT_THAT(create_network(config, convolves ? picture : input, output, 0),
                IsInvalid("device is 'cuda:100'"))
        << type;
  }
  for (const char* const type : {"mlp", "rnn"}) {
    config.set_type(type);
    config.clear_conv();
    EXPECT_THAT(create_network(config, input, output, 0),
                IsInvalid(absl::StrCat("network '", type,
                                       "' computes on the CPU; found device 'cuda:100', "
                                       "expected 'cpu', or a network of libtorch")));
  }
}

}  // namespace
}  // namespace ding
