#include "ding_worker/policy/testing/network_conformance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "gmock/gmock.h"

namespace ding {
namespace {

constexpr uint64_t kSeed = 5;

// Returns rows of `spec` with normally distributed elements, and uniform ones in fields of bytes;
// different `stream`s give different rows.
BatchBuilder RandomRows(SpecPtr spec, int64_t rows, int stream) {
  auto builder = BatchBuilder::Create(std::move(spec), rows);
  EXPECT_THAT(builder, IsOk());
  Rng rng(kSeed, "network_conformance", stream);
  for (int field = 0; field < builder->spec().size(); ++field) {
    if (builder->spec().field(field).dtype == DType::kUint8) {
      for (uint8_t& value : builder->column<uint8_t>(field)) {
        value = static_cast<uint8_t>(rng.UniformInt(256));
      }
    }
    if (builder->spec().field(field).dtype != DType::kFloat32) continue;
    for (float& value : builder->column<float>(field)) value = static_cast<float>(rng.Normal());
  }
  return *std::move(builder);
}

std::vector<float> Values(const ColumnsView& view) {
  std::vector<float> values;
  for (int field = 0; field < view.spec().size(); ++field) {
    const auto column = view.column<float>(field);
    values.insert(values.end(), column.begin(), column.end());
  }
  return values;
}

std::vector<float> InferValues(Network* network, const ColumnsView& input) {
  const BatchBuilder output = RandomRows(network->output_spec(), input.rows(), 99);
  EXPECT_THAT(network->Infer(input, output.view()), IsOk());
  return Values(output.view());
}

std::vector<float> Copy(absl::Span<const float> values) { return {values.begin(), values.end()}; }

// Returns the gradients of sum(d_output * outputs) by the parameters.
std::vector<float> Gradients(Network* network, const ColumnsView& input,
                             const ColumnsView& d_output) {
  const BatchBuilder output = RandomRows(network->output_spec(), input.rows(), 99);
  EXPECT_THAT(network->Forward(input, output.view()), IsOk());
  EXPECT_THAT(network->Backward(d_output), IsOk());
  return Copy(network->gradients());
}

void ExpectNear(absl::Span<const float> a, absl::Span<const float> b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0f, std::abs(b[i]))) << "element " << i;
  }
}

// Returns the fields of `spec` with the first one changed.
template <typename Change>
SpecPtr WithFirstField(const Spec& spec, Change change) {
  std::vector<FieldSpec> fields(spec.fields().begin(), spec.fields().end());
  change(&fields[0]);
  auto changed = MakeSpec(std::move(fields));
  EXPECT_THAT(changed, IsOk());
  return *changed;
}

TEST_P(NetworkConformance, ParameterInfoCoversAllParameters) {
  int64_t next = 0;
  for (const ParameterInfo& info : network_->parameter_info()) {
    EXPECT_EQ(info.offset, next) << info.name;
    EXPECT_FALSE(info.name.empty());
    next += NumElements(info.shape);
  }
  EXPECT_EQ(next, static_cast<int64_t>(network_->parameters().size()));
  EXPECT_EQ(network_->gradients().size(), network_->parameters().size());
  EXPECT_GT(next, 0);
  EXPECT_FALSE(network_->info().empty());
}

TEST_P(NetworkConformance, InferAndForwardGiveTheSameFiniteOutputs) {
  const BatchBuilder input = RandomRows(network_->input_spec(), 13, 1);
  const BatchBuilder output = RandomRows(network_->output_spec(), 13, 2);
  ASSERT_THAT(network_->Forward(input.view(), output.view()), IsOk());
  const std::vector<float> forward = Values(output.view());
  EXPECT_THAT(InferValues(network_.get(), input.view()), testing::ElementsAreArray(forward));
  for (const float value : forward) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(NetworkConformance, OutputsOfARowDoNotDependOnTheBatch) {
  constexpr int64_t kRows = 70;
  const BatchBuilder input = RandomRows(network_->input_spec(), kRows, 1);
  const BatchBuilder all = RandomRows(network_->output_spec(), kRows, 2);
  ASSERT_THAT(network_->Infer(input.view(), all.view()), IsOk());
  for (const int64_t rows : {int64_t{1}, int64_t{8}, int64_t{9}, int64_t{33}, int64_t{2}}) {
    for (const int64_t begin : {int64_t{0}, kRows - rows}) {
      SCOPED_TRACE(absl::StrCat("rows ", begin, " to ", begin + rows));
      ExpectNear(InferValues(network_.get(), input.view().Slice(begin, rows)),
                 Values(all.view().Slice(begin, rows)), 1e-5f);
    }
  }
}

TEST_P(NetworkConformance, WritesOnlyTheRowsOfTheInput) {
  const BatchBuilder input = RandomRows(network_->input_spec(), 3, 1);
  const BatchBuilder output = RandomRows(network_->output_spec(), 8, 2);
  const std::vector<float> before = Values(output.view().Slice(3, 5));
  ASSERT_THAT(network_->Infer(input.view(), output.view()), IsOk());
  EXPECT_EQ(Values(output.view().Slice(3, 5)), before);
  ASSERT_THAT(network_->Forward(input.view(), output.view()), IsOk());
  EXPECT_EQ(Values(output.view().Slice(3, 5)), before);
  EXPECT_EQ(Values(output.view().Slice(0, 3)), InferValues(network_.get(), input.view()));
}

// Along the gradient the loss must rise by |gradient| per unit, and along any other direction by
// gradient . direction. Each tensor is checked separately, so that an error in a small one is
// found.
TEST_P(NetworkConformance, GradientsAgreeWithFiniteDifferences) {
  // float32 outputs have an error of about 3e-7, so that the difference quotient has one of 1e-4;
  // the curvature adds about as much.
  constexpr double kStep = 4e-3;
  constexpr double kTolerance = 2e-3;
  constexpr int64_t kRows = 5;
  const BatchBuilder input = RandomRows(network_->input_spec(), kRows, 1);
  const BatchBuilder d_output = RandomRows(network_->output_spec(), kRows, 2);
  const std::vector<float> weights = Values(d_output.view());
  const std::vector<float> gradients = Gradients(network_.get(), input.view(), d_output.view());
  const std::vector<float> start = Copy(network_->parameters());
  const auto loss_at = [&](const ParameterInfo& info, absl::Span<const double> direction,
                           double step) {
    for (size_t i = 0; i < direction.size(); ++i) {
      network_->parameters()[info.offset + i] =
          static_cast<float>(start[info.offset + i] + step * direction[i]);
    }
    const std::vector<float> outputs = InferValues(network_.get(), input.view());
    std::copy(start.begin(), start.end(), network_->parameters().begin());
    double loss = 0;
    for (size_t i = 0; i < outputs.size(); ++i) loss += double{outputs[i]} * weights[i];
    return loss;
  };
  Rng rng(kSeed, "network_conformance/direction");
  for (const ParameterInfo& info : network_->parameter_info()) {
    const auto gradient =
        absl::MakeConstSpan(gradients).subspan(info.offset, NumElements(info.shape));
    for (const bool along_gradient : {true, false}) {
      SCOPED_TRACE(absl::StrCat(info.name, along_gradient ? " along its gradient" : ""));
      std::vector<double> direction(gradient.begin(), gradient.end());
      if (!along_gradient) {
        for (double& value : direction) value = rng.Normal();
      }
      double square = 0;
      for (const double value : direction) square += value * value;
      // Single rows of a recurrent network have state 0, whose weights then have no effect.
      if (square == 0 && AsRecurrent(network_.get()) != nullptr) continue;
      ASSERT_GT(square, 0) << "the gradient is zero: the case tests nothing";
      double expected = 0;
      for (size_t i = 0; i < direction.size(); ++i) {
        direction[i] /= std::sqrt(square);
        expected += direction[i] * gradient[i];
      }
      const double quotient =
          (loss_at(info, direction, kStep) - loss_at(info, direction, -kStep)) / (2 * kStep);
      EXPECT_NEAR(quotient, expected, kTolerance + 1e-2 * std::abs(expected));
    }
  }
}

TEST_P(NetworkConformance, GradientOfABatchIsTheSumOfItsRows) {
  for (const int64_t rows : {int64_t{3}, int64_t{40}, int64_t{17}, int64_t{16}}) {
    SCOPED_TRACE(absl::StrCat(rows, " rows"));
    const BatchBuilder input = RandomRows(network_->input_spec(), rows, 1);
    const BatchBuilder d_output = RandomRows(network_->output_spec(), rows, 2);
    std::vector<float> sum(network_->gradients().size());
    for (int64_t row = 0; row < rows; ++row) {
      const std::vector<float> part =
          Gradients(network_.get(), input.view().Slice(row, 1), d_output.view().Slice(row, 1));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    ExpectNear(Gradients(network_.get(), input.view(), d_output.view()), sum, 1e-4f);
  }
}

TEST_P(NetworkConformance, BackwardOverwritesGradientsAndIsDeterministic) {
  const BatchBuilder input = RandomRows(network_->input_spec(), 20, 1);
  const BatchBuilder d_output = RandomRows(network_->output_spec(), 20, 2);
  const std::vector<float> first = Gradients(network_.get(), input.view(), d_output.view());
  std::fill(network_->gradients().begin(), network_->gradients().end(), 7.0f);
  EXPECT_EQ(Gradients(network_.get(), input.view(), d_output.view()), first);
}

TEST_P(NetworkConformance, InferBetweenForwardAndBackwardChangesNothing) {
  const BatchBuilder input = RandomRows(network_->input_spec(), 20, 1);
  const BatchBuilder d_output = RandomRows(network_->output_spec(), 20, 2);
  const std::vector<float> expected = Gradients(network_.get(), input.view(), d_output.view());
  const BatchBuilder output = RandomRows(network_->output_spec(), 20, 3);
  ASSERT_THAT(network_->Forward(input.view(), output.view()), IsOk());
  InferValues(network_.get(), RandomRows(network_->input_spec(), 50, 4).view());
  ASSERT_THAT(network_->Backward(d_output.view()), IsOk());
  EXPECT_EQ(Copy(network_->gradients()), expected);
}

TEST_P(NetworkConformance, BackwardNeedsAForwardOfAsManyRows) {
  const BatchBuilder d_output = RandomRows(network_->output_spec(), 4, 1);
  EXPECT_THAT(network_->Backward(d_output.view()), IsFailedPrecondition("Forward"));
  const BatchBuilder input = RandomRows(network_->input_spec(), 5, 2);
  InferValues(network_.get(), input.view());
  EXPECT_THAT(network_->Backward(d_output.view()), IsFailedPrecondition("Forward"));
  const BatchBuilder output = RandomRows(network_->output_spec(), 5, 3);
  ASSERT_THAT(network_->Forward(input.view(), output.view()), IsOk());
  EXPECT_THAT(network_->Backward(d_output.view()), IsFailedPrecondition("4 rows"));
  ASSERT_THAT(network_->Backward(output.view()), IsOk());
  EXPECT_THAT(network_->Backward(output.view()), IsFailedPrecondition("Forward"));
}

TEST_P(NetworkConformance, AddressesStayTheSame) {
  const float* const parameters = network_->parameters().data();
  const float* const gradients = network_->gradients().data();
  for (const int64_t rows : {int64_t{2}, int64_t{100}}) {
    Gradients(network_.get(), RandomRows(network_->input_spec(), rows, 1).view(),
              RandomRows(network_->output_spec(), rows, 2).view());
  }
  EXPECT_EQ(network_->parameters().data(), parameters);
  EXPECT_EQ(network_->gradients().data(), gradients);
}

TEST_P(NetworkConformance, OutputsFollowTheParameters) {
  const BatchBuilder input = RandomRows(network_->input_spec(), 6, 1);
  const std::vector<float> before = InferValues(network_.get(), input.view());
  for (float& value : network_->parameters()) value *= 1.5f;
  EXPECT_NE(InferValues(network_.get(), input.view()), before);
}

TEST_P(NetworkConformance, CloneIsEqualAndIndependent) {
  const BatchBuilder input = RandomRows(network_->input_spec(), 6, 1);
  const BatchBuilder d_output = RandomRows(network_->output_spec(), 6, 2);
  const std::vector<float> outputs = InferValues(network_.get(), input.view());
  DING_ASSERT_OK_AND_ASSIGN(std::unique_ptr<Network> clone, network_->Clone());
  ASSERT_EQ(Copy(clone->parameters()), Copy(network_->parameters()));
  EXPECT_EQ(*clone->input_spec(), *network_->input_spec());
  EXPECT_EQ(*clone->output_spec(), *network_->output_spec());
  EXPECT_EQ(InferValues(clone.get(), input.view()), outputs);
  EXPECT_EQ(Gradients(clone.get(), input.view(), d_output.view()),
            Gradients(network_.get(), input.view(), d_output.view()));
  const std::vector<float> clone_gradients = Copy(clone->gradients());
  std::fill(network_->parameters().begin(), network_->parameters().end(), 0.25f);
  std::fill(network_->gradients().begin(), network_->gradients().end(), 0.25f);
  EXPECT_EQ(InferValues(clone.get(), input.view()), outputs);
  EXPECT_EQ(Copy(clone->gradients()), clone_gradients);
  network_.reset();
  EXPECT_EQ(InferValues(clone.get(), input.view()), outputs);
}

TEST_P(NetworkConformance, AcceptsABatchWithoutRows) {
  const BatchBuilder input = RandomRows(network_->input_spec(), 1, 1);
  const BatchBuilder output = RandomRows(network_->output_spec(), 1, 2);
  EXPECT_THAT(network_->Infer(input.view().Slice(0, 0), output.view().Slice(0, 0)), IsOk());
  ASSERT_THAT(network_->Forward(input.view().Slice(0, 0), output.view().Slice(0, 0)), IsOk());
  std::fill(network_->gradients().begin(), network_->gradients().end(), 7.0f);
  ASSERT_THAT(network_->Backward(output.view().Slice(0, 0)), IsOk());
  EXPECT_THAT(Copy(network_->gradients()), testing::Each(0.0f));
}

TEST_P(NetworkConformance, IgnoresFurtherInputFields) {
  std::vector<FieldSpec> fields(network_->input_spec()->fields().begin(),
                                network_->input_spec()->fields().end());
  fields.push_back(Discrete("field_after", 3));
  DING_ASSERT_OK_AND_ASSIGN(const SpecPtr wider, MakeSpec(std::move(fields)));
  const BatchBuilder input = RandomRows(network_->input_spec(), 4, 1);
  const BatchBuilder wider_input = RandomRows(wider, 4, 1);
  CopyRows(input.view(), wider_input.view(), 0);
  EXPECT_EQ(InferValues(network_.get(), wider_input.view()),
            InferValues(network_.get(), input.view()));
}

TEST_P(NetworkConformance, RefusesOtherLayoutsAndNamesTheField) {
  const Spec& input_spec = *network_->input_spec();
  const Spec& output_spec = *network_->output_spec();
  const BatchBuilder input = RandomRows(network_->input_spec(), 4, 1);
  const BatchBuilder output = RandomRows(network_->output_spec(), 4, 2);
  const auto wider = [](FieldSpec* field) { field->shape.push_back(3); };
  const auto renamed = [](FieldSpec* field) { field->name += "_renamed"; };
  const auto other_type = [](FieldSpec* field) { field->dtype = DType::kFloat64; };
  const auto is_refused = [](absl::string_view field) { return IsInvalid(std::string(field)); };
  for (const SpecPtr& wrong :
       {WithFirstField(input_spec, wider), WithFirstField(input_spec, renamed),
        WithFirstField(input_spec, other_type)}) {
    const BatchBuilder wrong_input = RandomRows(wrong, 4, 1);
    const auto refused = is_refused(input_spec.field(0).name);
    EXPECT_THAT(network_->Infer(wrong_input.view(), output.view()), refused);
    EXPECT_THAT(network_->Forward(wrong_input.view(), output.view()), refused);
  }
  ASSERT_THAT(network_->Forward(input.view(), output.view()), IsOk());
  for (const SpecPtr& wrong :
       {WithFirstField(output_spec, wider), WithFirstField(output_spec, renamed),
        WithFirstField(output_spec, other_type)}) {
    const BatchBuilder wrong_output = RandomRows(wrong, 4, 1);
    const auto refused = is_refused(output_spec.field(0).name);
    EXPECT_THAT(network_->Infer(input.view(), wrong_output.view()), refused);
    EXPECT_THAT(network_->Forward(input.view(), wrong_output.view()), refused);
    EXPECT_THAT(network_->Backward(wrong_output.view()), refused);
  }
  EXPECT_THAT(network_->Backward(output.view()), IsOk()) << "a refused call left a trace";
  EXPECT_THAT(network_->Infer(input.view(), output.view().Slice(0, 3)), IsInvalid("4 input rows"));
  EXPECT_THAT(network_->Forward(input.view(), output.view().Slice(0, 3)),
              IsInvalid("4 input rows"));
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NetworkConformance);

}  // namespace ding
