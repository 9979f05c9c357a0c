#include "ding_worker/policy/mlp/mlp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp_structure.h"
#include "ding_worker/policy/mlp/normalization_kernels.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/policy.pb.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/testing/network_conformance.h"
#include "ding_worker/policy/testing/network_test_cases.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kSeed = 7;

std::unique_ptr<Mlp> Create(const MlpTestCase& test_case) {
  auto mlp = Mlp::Create(test_case.options, *MakeSpec(test_case.input), *MakeSpec(test_case.output),
                         kSeed);
  EXPECT_THAT(mlp, IsOk());
  return *std::move(mlp);
}

INSTANTIATE_TEST_SUITE_P(Mlp, NetworkConformance, testing::ValuesIn(MlpNetworkCases(Create)),
                         NetworkCaseName);
INSTANTIATE_TEST_SUITE_P(Normalized, NetworkConformance,
                         testing::ValuesIn(MlpNetworkCases(Create, NormalizedMlpTestCases())),
                         NetworkCaseName);

BatchBuilder RandomRows(const SpecPtr& spec, int64_t rows, int stream) {
  return NormalRows(spec, rows, Rng(kSeed, "mlp_test", stream));
}

// An independent implementation: parameters by name, one row at a time, in double precision.
class ReferenceMlp {
 public:
  ReferenceMlp(const MlpTestCase& test_case, const Mlp& mlp)
      : case_(test_case),
        info_(mlp.parameter_info().begin(), mlp.parameter_info().end()),
        layers_(MakeMlpStructure(test_case.options, mlp.input_spec(), mlp.output_spec())->layers),
        parameters_(mlp.parameters().begin(), mlp.parameters().end()) {}

  std::vector<double>& parameters() { return parameters_; }

  // Returns the concatenated output fields; features are dropped for `row_key`, if there is one.
  std::vector<double> Run(const std::vector<double>& input,
                          std::optional<uint64_t> row_key = std::nullopt) {
    row_key_ = row_key;
    std::vector<double> outputs;
    for (const FieldSpec& field : case_.output) {
      const std::vector<double> row =
          Encode(case_.options.separate_encoders ? field.name + "/encoder/" : "encoder/", input);
      std::vector<double> head;
      if (case_.options.dueling) {
        head = Branch(field.name + "/advantage", row);
        const std::vector<double> value = Branch(field.name + "/value", row);
        const std::vector<double> advantage = head;
        const size_t width = value.size();
        for (size_t i = 0; i < head.size(); ++i) {
          head[i] += value[i % width];
          for (size_t a = i % width; a < head.size(); a += width) {
            head[i] -= advantage[a] / static_cast<double>(field.shape[0]);
          }
        }
      } else {
        head = Branch(field.name, row);
      }
      outputs.insert(outputs.end(), head.begin(), head.end());
    }
    return outputs;
  }

 private:
  std::vector<double> Encode(const std::string& name, std::vector<double> row) const {
    for (size_t i = 0; i < case_.options.encoder_hidden_size.size(); ++i) {
      row = Hidden(absl::StrCat(name, i), row);
    }
    return row;
  }

  std::vector<double> Branch(const std::string& name, std::vector<double> row) const {
    const int64_t hidden = case_.options.head_layer_num;
    for (int64_t i = 0; i < hidden; ++i) row = Hidden(absl::StrCat(name, "/", i), row);
    const std::string last = absl::StrCat(name, "/", hidden);
    return case_.options.output_activation ? Hidden(last, row) : Linear(last, row);
  }

  std::vector<double> Hidden(const std::string& name, const std::vector<double>& x) const {
    std::vector<double> y = Linear(name, x);
    if (row_key_.has_value()) y = Drop(name, y);
    if (case_.options.layer_norm) y = Normalize(name, y);
    return Activate(y);
  }

  // By the formula of normalization_kernels.h.
  std::vector<double> Drop(const std::string& name, std::vector<double> y) const {
    const auto layer = std::find_if(layers_.begin(), layers_.end(),
                                    [&](const MlpLayer& l) { return l.name == name; });
    const uint32_t key = internal_mlp::DropoutKey(*row_key_, layer - layers_.begin());
    for (size_t f = 0; f < y.size(); ++f) {
      uint32_t x = key + static_cast<uint32_t>(f) * 0x9E3779B9u;
      x = (x ^ x >> 16) * 0x7FEB352Du;
      x = (x ^ x >> 15) * 0x846CA68Bu;
      x = x ^ x >> 16;
      const bool dropped = x < case_.options.dropout * 4294967296.0;
      y[f] = dropped ? 0 : y[f] / (1 - case_.options.dropout);
    }
    return y;
  }

  std::vector<double> Normalize(const std::string& name, std::vector<double> y) const {
    const auto width = static_cast<double>(y.size());
    double mean = 0;
    for (const double value : y) mean += value / width;
    double variance = 0;
    for (const double value : y) variance += (value - mean) * (value - mean) / width;
    const int64_t weight = Find(name + "/norm/weight").offset;
    const int64_t bias = Find(name + "/norm/bias").offset;
    for (size_t f = 0; f < y.size(); ++f) {
      y[f] = (y[f] - mean) / std::sqrt(variance + 1e-5) * parameters_[weight + f] +
             parameters_[bias + f];
    }
    return y;
  }

  std::vector<double> Activate(std::vector<double> values) const {
    const bool tanh = case_.options.activation == MlpOptions::Activation::kTanh;
    for (double& value : values) value = tanh ? std::tanh(value) : std::max(value, 0.0);
    return values;
  }

  std::vector<double> Linear(const std::string& name, const std::vector<double>& x) const {
    const ParameterInfo& weight = Find(name + "/weight");
    const ParameterInfo& bias = Find(name + "/bias");
    std::vector<double> y(weight.shape[0]);
    EXPECT_EQ(weight.shape[1], static_cast<int64_t>(x.size())) << name;
    for (size_t o = 0; o < y.size(); ++o) {
      y[o] = parameters_[bias.offset + o];
      for (size_t i = 0; i < x.size(); ++i) {
        y[o] += parameters_[weight.offset + o * x.size() + i] * x[i];
      }
    }
    return y;
  }

  const ParameterInfo& Find(const std::string& name) const {
    const auto found = std::find_if(info_.begin(), info_.end(),
                                    [&](const ParameterInfo& info) { return info.name == name; });
    EXPECT_NE(found, info_.end()) << name;
    return *found;
  }

  const MlpTestCase case_;
  const std::vector<ParameterInfo> info_;
  const std::vector<MlpLayer> layers_;
  std::vector<double> parameters_;
  std::optional<uint64_t> row_key_;
};

// Returns the concatenated fields of row `row`.
std::vector<double> RowOf(const BatchBuilder& rows, int64_t row) {
  std::vector<double> values;
  for (int field = 0; field < rows.spec().size(); ++field) {
    const auto elements = rows.view().row(row).field<float>(field);
    values.insert(values.end(), elements.begin(), elements.end());
  }
  return values;
}

std::optional<uint64_t> KeyOf(const std::vector<uint64_t>& keys, int64_t row) {
  if (keys.empty()) return std::nullopt;
  return keys[static_cast<size_t>(row)];
}

class MlpReferenceTest : public testing::TestWithParam<MlpTestCase> {};

INSTANTIATE_TEST_SUITE_P(All, MlpReferenceTest, testing::ValuesIn(MlpTestCases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Normalized, MlpReferenceTest, testing::ValuesIn(NormalizedMlpTestCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(MlpReferenceTest, OutputsAgreeWithTheReference) {
  const std::unique_ptr<Mlp> mlp = Create(GetParam());
  ReferenceMlp reference(GetParam(), *mlp);
  for (const int64_t rows : {1, 8, 9, 40, 150}) {
    const BatchBuilder input = RandomRows(mlp->input_spec(), rows, 1);
    const BatchBuilder output = RandomRows(mlp->output_spec(), rows, 2);
    ASSERT_THAT(mlp->Infer(input.view(), output.view()), IsOk());
    for (int64_t row = 0; row < rows; ++row) {
      // Five layers of sums of at most 25 products, outputs below 4: errors of a few units of
      // 2^-24.
      EXPECT_THAT(RowOf(output, row),
                  testing::Pointwise(testing::DoubleNear(3e-6), reference.Run(RowOf(input, row))))
          << "row " << row << " of " << rows;
    }
  }
}

// Compares the gradients of the parameters by a loss of random weights with finite differences.
// `keys` of the rows, or none: nothing is dropped.
void ExpectGradientsOfTheReference(const MlpTestCase& test_case, int64_t rows,
                                   const std::vector<uint64_t>& keys) {
  // The reference is exact to 1e-15, so a step of 1e-5 has an error of about 1e-9: the tolerance is
  // for the float32 gradients.
  constexpr double kStep = 1e-5;
  constexpr double kTolerance = 1e-5;
  const std::unique_ptr<Mlp> mlp = Create(test_case);
  ReferenceMlp reference(test_case, *mlp);
  const BatchBuilder input = RandomRows(mlp->input_spec(), rows, 1);
  const BatchBuilder output = RandomRows(mlp->output_spec(), rows, 2);
  const BatchBuilder d_output = RandomRows(mlp->output_spec(), rows, 3);
  mlp->set_dropout_keys(keys);
  ASSERT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  ASSERT_THAT(mlp->Backward(d_output.view()), IsOk());
  const auto loss = [&] {
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const std::vector<double> outputs = reference.Run(RowOf(input, row), KeyOf(keys, row));
      const std::vector<double> weights = RowOf(d_output, row);
      for (size_t i = 0; i < outputs.size(); ++i) sum += outputs[i] * weights[i];
    }
    return sum;
  };
  for (const ParameterInfo& info : mlp->parameter_info()) {
    for (int64_t i = info.offset; i < info.offset + NumElements(info.shape); ++i) {
      double& parameter = reference.parameters()[i];
      const double start = parameter;
      parameter = start + kStep;
      const double above = loss();
      parameter = start - kStep;
      const double below = loss();
      parameter = start;
      const double expected = (above - below) / (2 * kStep);
      EXPECT_NEAR(mlp->gradients()[i], expected, kTolerance * std::max(1.0, std::abs(expected)))
          << info.name << "[" << i - info.offset << "]";
    }
  }
}

TEST_P(MlpReferenceTest, GradientsAgreeWithFiniteDifferencesInDoublePrecision) {
  ExpectGradientsOfTheReference(GetParam(), 21, {});
}

// Expects that BackwardToInput() writes `d_input` [rows, width], from each of its elements on, and
// no gradients of parameters.
void ExpectTheSameFromBackwardToInput(Mlp* mlp, const BatchBuilder& input,
                                      const BatchBuilder& d_output,
                                      const std::vector<float>& d_input) {
  const int64_t rows = input.view().rows();
  const BatchBuilder output = RandomRows(mlp->output_spec(), rows, 2);
  std::fill(mlp->gradients().begin(), mlp->gradients().end(), -77.0f);
  const auto width = static_cast<int64_t>(d_input.size()) / rows;
  for (int64_t first = 0; first < width; ++first) {
    ASSERT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
    std::vector<float> part(static_cast<size_t>(rows * (width - first)));
    ASSERT_THAT(mlp->BackwardToInput(d_output.view(), first, absl::MakeSpan(part)), IsOk());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = first; i < width; ++i) {
        EXPECT_EQ(part[static_cast<size_t>(row * (width - first) + i - first)],
                  d_input[static_cast<size_t>(row * width + i)])
            << "row " << row << ", element " << i << ", from " << first << " on";
      }
    }
  }
  EXPECT_THAT(mlp->gradients(), testing::Each(-77.0f));
}

void ExpectInputGradientsOfTheReference(const MlpTestCase& test_case, int64_t rows,
                                        const std::vector<uint64_t>& keys) {
  constexpr double kStep = 1e-5;
  constexpr double kTolerance = 1e-5;
  const std::unique_ptr<Mlp> mlp = Create(test_case);
  ReferenceMlp reference(test_case, *mlp);
  mlp->set_dropout_keys(keys);
  const BatchBuilder input = RandomRows(mlp->input_spec(), rows, 1);
  const BatchBuilder output = RandomRows(mlp->output_spec(), rows, 2);
  const BatchBuilder d_output = RandomRows(mlp->output_spec(), rows, 3);
  ASSERT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  ASSERT_THAT(mlp->Backward(d_output.view()), IsOk());
  const std::vector<float> gradients(mlp->gradients().begin(), mlp->gradients().end());
  const size_t width = RowOf(input, 0).size();
  std::vector<float> d_input(static_cast<size_t>(rows) * width, -77);
  ASSERT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  ASSERT_THAT(mlp->Backward(d_output.view(), absl::MakeSpan(d_input)), IsOk());
  EXPECT_EQ(mlp->gradients(), absl::MakeConstSpan(gradients));
  ExpectTheSameFromBackwardToInput(mlp.get(), input, d_output, d_input);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<double> weights = RowOf(d_output, row);
    for (size_t i = 0; i < width; ++i) {
      std::vector<double> x = RowOf(input, row);
      double quotient = 0;
      for (const double side : {1.0, -1.0}) {
        x[i] = RowOf(input, row)[i] + side * kStep;
        const std::vector<double> outputs = reference.Run(x, KeyOf(keys, row));
        for (size_t k = 0; k < outputs.size(); ++k) {
          quotient += side * outputs[k] * weights[k] / (2 * kStep);
        }
      }
      EXPECT_NEAR(d_input[row * width + i], quotient,
                  kTolerance * std::max(1.0, std::abs(quotient)))
          << "row " << row << ", element " << i;
    }
  }
}

TEST_P(MlpReferenceTest, InputGradientsAgreeWithFiniteDifferencesInDoublePrecision) {
  for (const int64_t rows : {5, 21}) ExpectInputGradientsOfTheReference(GetParam(), rows, {});
}

TEST_P(MlpReferenceTest, OutputsOfARowDoNotDependOnTheBatch) {
  constexpr int64_t kRows = 100;
  const std::unique_ptr<Mlp> mlp = Create(GetParam());
  const BatchBuilder input = RandomRows(mlp->input_spec(), kRows, 1);
  const BatchBuilder all = RandomRows(mlp->output_spec(), kRows, 2);
  ASSERT_THAT(mlp->Forward(input.view(), all.view()), IsOk());
  const BatchBuilder one = RandomRows(mlp->output_spec(), 1, 3);
  for (int64_t row = 0; row < kRows; ++row) {
    ASSERT_THAT(mlp->Infer(input.view().Slice(row, 1), one.view()), IsOk());
    for (int field = 0; field < mlp->output_spec()->size(); ++field) {
      ASSERT_EQ(
          std::memcmp(one.view().raw_column(field), all.view().Slice(row, 1).raw_column(field),
                      mlp->output_spec()->row_bytes(field)),
          0)
          << "row " << row;
    }
  }
}

class MlpDropoutTest : public testing::TestWithParam<MlpTestCase> {
 protected:
  static std::vector<uint64_t> Keys(int64_t rows) {
    std::vector<uint64_t> keys;
    for (int64_t row = 0; row < rows; ++row) keys.push_back(2000 + static_cast<uint64_t>(row));
    return keys;
  }
};

INSTANTIATE_TEST_SUITE_P(All, MlpDropoutTest, testing::ValuesIn(NormalizedMlpTestCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(MlpDropoutTest, OutputsAgreeWithTheReference) {
  const std::unique_ptr<Mlp> mlp = Create(GetParam());
  ReferenceMlp reference(GetParam(), *mlp);
  for (const int64_t rows : {1, 9, 150}) {
    const std::vector<uint64_t> keys = Keys(rows);
    const BatchBuilder input = RandomRows(mlp->input_spec(), rows, 1);
    const BatchBuilder output = RandomRows(mlp->output_spec(), rows, 2);
    mlp->set_dropout_keys(keys);
    for (const bool infer : {true, false}) {
      ASSERT_THAT(infer ? mlp->Infer(input.view(), output.view())
                        : mlp->Forward(input.view(), output.view()),
                  IsOk());
      for (int64_t row = 0; row < rows; ++row) {
        EXPECT_THAT(RowOf(output, row),
                    testing::Pointwise(testing::DoubleNear(1e-5),
                                       reference.Run(RowOf(input, row), KeyOf(keys, row))))
            << "row " << row << " of " << rows << (infer ? ", Infer" : ", Forward");
      }
    }
  }
}

TEST_P(MlpDropoutTest, GradientsAgreeWithFiniteDifferencesInDoublePrecision) {
  ExpectGradientsOfTheReference(GetParam(), 21, Keys(21));
}

TEST_P(MlpDropoutTest, InputGradientsAgreeWithFiniteDifferencesInDoublePrecision) {
  ExpectInputGradientsOfTheReference(GetParam(), 21, Keys(21));
}

TEST_P(MlpDropoutTest, WithoutKeysNothingIsDropped) {
  const bool drops = GetParam().options.dropout > 0;
  const std::unique_ptr<Mlp> mlp = Create(GetParam());
  const BatchBuilder input = RandomRows(mlp->input_spec(), 8, 1);
  const BatchBuilder output = RandomRows(mlp->output_spec(), 8, 2);
  const auto infer = [&](const std::vector<uint64_t>& keys) {
    mlp->set_dropout_keys(keys);
    EXPECT_THAT(mlp->Infer(input.view(), output.view()), IsOk());
    const auto values = output.view().column<float>(0);
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> plain = infer({});
  const std::vector<float> dropped = infer(Keys(8));
  EXPECT_EQ(dropped != plain, drops);
  EXPECT_EQ(infer(Keys(8)), dropped);
  std::vector<uint64_t> others = Keys(8);
  for (uint64_t& key : others) key += 100;
  EXPECT_EQ(infer(others) != dropped, drops);
  EXPECT_EQ(infer({}), plain);
  mlp->set_dropout_keys(others);
  EXPECT_THAT(mlp->Infer(input.view().Slice(0, 5), output.view()),
              IsInvalid("5 input rows, but 8 dropout keys"));
  EXPECT_THAT(mlp->Forward(input.view().Slice(0, 5), output.view()), IsInvalid("8 dropout keys"));
}

TEST(MlpTest, ParametersComeFromTheSeed) {
  const MlpTestCase test_case = MlpTestCases()[1];
  const SpecPtr input = *MakeSpec(test_case.input);
  const SpecPtr output = *MakeSpec(test_case.output);
  DING_ASSERT_OK_AND_ASSIGN(const auto a, Mlp::Create(test_case.options, input, output, 1));
  DING_ASSERT_OK_AND_ASSIGN(const auto b, Mlp::Create(test_case.options, input, output, 1));
  DING_ASSERT_OK_AND_ASSIGN(const auto c, Mlp::Create(test_case.options, input, output, 2));
  EXPECT_EQ(a->parameters(), b->parameters());
  EXPECT_NE(a->parameters(), c->parameters());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a->parameters().data()) % 64, 0u);
  EXPECT_EQ(a->info(), "mlp 4-17-9, q 9-3: 367 parameters");
}

TEST(MlpTest, RefusesAnInputGradientOfAnotherSize) {
  const std::unique_ptr<Mlp> mlp = Create(MlpTestCases()[1]);
  const BatchBuilder input = RandomRows(mlp->input_spec(), 3, 1);
  const BatchBuilder output = RandomRows(mlp->output_spec(), 3, 2);
  ASSERT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  std::vector<float> d_input(11);
  EXPECT_THAT(mlp->Backward(output.view(), absl::MakeSpan(d_input)), IsInvalid("11", "12"));
  EXPECT_THAT(mlp->BackwardToInput(output.view(), 1, absl::MakeSpan(d_input)),
              IsInvalid("11", "9"));
  EXPECT_THAT(mlp->BackwardToInput(output.view().Slice(0, 2), 0, absl::MakeSpan(d_input)),
              IsFailedPrecondition());
}

TEST(MlpTest, APartWorksOnTheParametersOfTheWhole) {
  const MlpTestCase test_case = MlpTestCases()[4];
  const std::unique_ptr<Mlp> alone = Create(test_case);
  DING_ASSERT_OK_AND_ASSIGN(
      const MlpStructure structure,
      MakeMlpStructure(test_case.options, alone->input_spec(), alone->output_spec()));
  std::vector<float> parameters(alone->parameters().begin(), alone->parameters().end());
  std::vector<float> gradients(parameters.size());
  const std::unique_ptr<Mlp> part =
      Mlp::CreatePart(structure, absl::MakeSpan(parameters), absl::MakeSpan(gradients));
  EXPECT_EQ(part->parameters().data(), parameters.data());
  const BatchBuilder input = RandomRows(alone->input_spec(), 20, 1);
  const BatchBuilder output = RandomRows(alone->output_spec(), 20, 2);
  for (Mlp* const mlp : {alone.get(), part.get()}) {
    ASSERT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
    ASSERT_THAT(mlp->Backward(output.view()), IsOk());
  }
  EXPECT_EQ(absl::MakeConstSpan(gradients), alone->gradients());
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> clone, part->Clone());
  EXPECT_NE(clone->parameters().data(), parameters.data());
  EXPECT_EQ(clone->parameters(), alone->parameters());
}

TEST(MlpTest, NanInAParameterReachesTheOutputs) {
  const MlpTestCase test_case = MlpTestCases()[1];  // ReLU must not turn NaN into 0.
  const std::unique_ptr<Mlp> mlp = Create(test_case);
  mlp->parameters()[0] = std::nanf("");
  const BatchBuilder input = RandomRows(mlp->input_spec(), 4, 1);
  const BatchBuilder output = RandomRows(mlp->output_spec(), 4, 2);
  ASSERT_THAT(mlp->Infer(input.view(), output.view()), IsOk());
  EXPECT_TRUE(std::isnan(output.column<float>(0)[0]));
}

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
  EXPECT_THAT(Create(config), IsInvalid("encoder_hidden_size[0] is -3", "head_layer_num is -1"));
}

TEST(MlpFactoryTest, RefusesParams) {
  NetworkConfig config;
  config.add_encoder_hidden_size(8);
  config.mutable_params()->set_type_url("type.googleapis.com/mine.Config");
  EXPECT_THAT(Create(config), IsInvalid("mine.Config"));
}

TEST(MlpFactoryTest, RefusesConvolutions) {
  NetworkConfig config;
  config.add_encoder_hidden_size(8);
  config.add_conv()->set_channels(16);
  EXPECT_THAT(Create(config), IsInvalid("'mlp' has no convolutions"));
}

TEST(MlpFactoryTest, RefusesARecurrentLayer) {
  NetworkConfig config;
  config.add_encoder_hidden_size(8);
  config.mutable_recurrent();
  EXPECT_THAT(Create(config), IsInvalid("'mlp' has no recurrent layer", "type 'rnn'"));
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
  EXPECT_THAT(Create(config), IsNotFound("mpl", "mlp"));
}

}  // namespace
}  // namespace ding
