#include "ding_worker/policy/testing/recurrent_conformance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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

constexpr uint64_t kSeed = 6;
// The outputs for a row may be rounded in another way in a batch of another size.
constexpr float kRounding = 1e-5f;

BatchBuilder RandomRows(SpecPtr spec, int64_t rows, int stream) {
  auto builder = BatchBuilder::Create(std::move(spec), rows);
  EXPECT_THAT(builder, IsOk());
  Rng rng(kSeed, "recurrent_conformance", stream);
  for (int field = 0; field < builder->spec().size(); ++field) {
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

std::vector<float> Copy(absl::Span<const float> values) { return {values.begin(), values.end()}; }

void ExpectNear(absl::Span<const float> a, absl::Span<const float> b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0f, std::abs(b[i]))) << "element " << i;
  }
}

// Sequences with memory of their own.
struct Case {
  // Random rows and states; `resets` is the probability that a row begins an episode.
  Case(const RecurrentNetwork& network, int64_t count, int64_t length, double resets, int stream)
      : count(count),
        length(length),
        rows(RandomRows(network.input_spec(), count * length, stream)),
        d_output(RandomRows(network.output_spec(), count * length, stream + 1)),
        state(static_cast<size_t>(count * network.state_size())),
        is_first(static_cast<size_t>(count * length)) {
    Rng rng(kSeed, "recurrent_conformance/state", stream);
    for (float& value : state) value = static_cast<float>(rng.Uniform(-1, 1));
    for (uint8_t& mark : is_first) mark = rng.Uniform() < resets ? 1 : 0;
  }

  Sequences view() const {
    Sequences sequences;
    sequences.rows = rows.view();
    sequences.length = length;
    sequences.state = state;
    sequences.is_first = is_first;
    return sequences;
  }
  // Returns sequence `index` alone.
  Sequences One(int64_t index) const {
    Sequences one = view();
    one.rows = one.rows.Slice(index * length, length);
    one.state = one.state.subspan(index * state.size() / count, state.size() / count);
    one.is_first = one.is_first.subspan(index * length, length);
    return one;
  }

  const int64_t count;
  const int64_t length;
  const BatchBuilder rows;
  const BatchBuilder d_output;
  std::vector<float> state;
  std::vector<uint8_t> is_first;
};

// Returns rows [begin, end) of each sequence, without its state: that before row `begin` is to be
// set.
struct Part {
  Part(const Case& from, int64_t begin, int64_t end, const ColumnsView& columns)
      : rows(RandomRows(SpecOf(columns), from.count * (end - begin), 0)) {
    for (int64_t i = 0; i < from.count; ++i) {
      CopyRows(columns.Slice(i * from.length + begin, end - begin), rows.view(), i * (end - begin));
      const auto marks = from.is_first.begin() + i * from.length;
      is_first.insert(is_first.end(), marks + begin, marks + end);
    }
  }
  static SpecPtr SpecOf(const ColumnsView& columns) {
    return *MakeSpec({columns.spec().fields().begin(), columns.spec().fields().end()});
  }
  Sequences view(int64_t length, absl::Span<const float> state) const {
    Sequences sequences;
    sequences.rows = rows.view();
    sequences.length = length;
    sequences.state = state;
    sequences.is_first = is_first;
    return sequences;
  }

  const BatchBuilder rows;
  std::vector<uint8_t> is_first;
};

struct Outputs {
  std::vector<float> values;
  std::vector<float> states;  // after each row
};

Outputs Infer(RecurrentNetwork* network, const Sequences& sequences) {
  const int64_t rows = sequences.rows.rows();
  const BatchBuilder output = RandomRows(network->output_spec(), std::max<int64_t>(rows, 1), 99);
  Outputs outputs;
  outputs.states.resize(rows * network->state_size());
  EXPECT_THAT(network->InferSequences(sequences, output.view(), absl::MakeSpan(outputs.states)),
              IsOk());
  outputs.values = Values(output.view().Slice(0, rows));
  return outputs;
}

// Returns the gradients of sum(d_output * outputs) by the parameters.
std::vector<float> Gradients(RecurrentNetwork* network, const Sequences& sequences,
                             const ColumnsView& d_output) {
  const BatchBuilder output = RandomRows(network->output_spec(), sequences.rows.rows(), 99);
  EXPECT_THAT(network->ForwardSequences(sequences, output.view(), {}), IsOk());
  EXPECT_THAT(network->Backward(d_output), IsOk());
  return Copy(network->gradients());
}

// Returns rows [begin, end) of each sequence of values [count * length, width].
std::vector<float> RowsOf(absl::Span<const float> values, const Case& sequences, int64_t begin,
                          int64_t end) {
  const int64_t width = static_cast<int64_t>(values.size()) / (sequences.count * sequences.length);
  std::vector<float> part;
  for (int64_t i = 0; i < sequences.count; ++i) {
    const auto rows = values.subspan((i * sequences.length + begin) * width, (end - begin) * width);
    part.insert(part.end(), rows.begin(), rows.end());
  }
  return part;
}

TEST_P(RecurrentConformance, IsFoundBehindTheInterfaceOfNetworks) {
  EXPECT_EQ(AsRecurrent(network_.get()), network_.get());
  EXPECT_GE(network_->state_size(), 1);
  DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Network> clone, network_->Clone());
  ASSERT_NE(AsRecurrent(clone.get()), nullptr);
  const Case rows(*network_, 5, 4, 0.2, 1);
  const Outputs expected = Infer(network_.get(), rows.view());
  const Outputs found = Infer(AsRecurrent(clone.get()), rows.view());
  EXPECT_EQ(found.values, expected.values);
  EXPECT_EQ(found.states, expected.states);
  EXPECT_EQ(Gradients(AsRecurrent(clone.get()), rows.view(), rows.d_output.view()),
            Gradients(network_.get(), rows.view(), rows.d_output.view()));
}

TEST_P(RecurrentConformance, SingleRowsAreSequencesFromStateZero) {
  Case rows(*network_, 20, 1, 0, 1);
  std::fill(rows.state.begin(), rows.state.end(), 0.0f);
  const BatchBuilder output = RandomRows(network_->output_spec(), 20, 3);
  ASSERT_THAT(network_->Infer(rows.rows.view(), output.view()), IsOk());
  EXPECT_EQ(Infer(network_.get(), rows.view()).values, Values(output.view()));
  Sequences without_state = rows.view();
  without_state.state = {};
  without_state.is_first = {};
  EXPECT_EQ(Infer(network_.get(), without_state).values, Values(output.view()));
}

TEST_P(RecurrentConformance, InferAndForwardGiveTheSameOutputsAndStates) {
  const Case rows(*network_, 19, 6, 0.2, 1);
  const Outputs expected = Infer(network_.get(), rows.view());
  for (const float value : expected.values) ASSERT_TRUE(std::isfinite(value));
  for (const float value : expected.states) ASSERT_TRUE(std::isfinite(value));
  const BatchBuilder output = RandomRows(network_->output_spec(), rows.rows.capacity_rows(), 2);
  std::vector<float> states(expected.states.size());
  ASSERT_THAT(network_->ForwardSequences(rows.view(), output.view(), absl::MakeSpan(states)),
              IsOk());
  EXPECT_EQ(Values(output.view()), expected.values);
  EXPECT_EQ(states, expected.states);
}

TEST_P(RecurrentConformance, OutputsDependOnTheStateAndOnEarlierRows) {
  Case rows(*network_, 3, 4, 0, 1);
  const Outputs before = Infer(network_.get(), rows.view());
  rows.rows.column<float>(0)[0] += 1;  // the first row of the first sequence
  const Outputs other_row = Infer(network_.get(), rows.view());
  const int64_t state_size = network_->state_size();
  const auto state_after_4 = [&](const Outputs& outputs, int64_t sequence) {
    const auto begin = outputs.states.begin() + (sequence * 4 + 3) * state_size;
    return std::vector<float>(begin, begin + state_size);
  };
  EXPECT_NE(state_after_4(other_row, 0), state_after_4(before, 0));
  EXPECT_EQ(state_after_4(other_row, 1), state_after_4(before, 1));
  EXPECT_NE(other_row.values, before.values);
  for (float& value : rows.state) value += 0.5f;
  const Outputs other_state = Infer(network_.get(), rows.view());
  EXPECT_NE(state_after_4(other_state, 1), state_after_4(before, 1));
}

TEST_P(RecurrentConformance, StatesOfTheLastRowsAreThoseAfterAllRows) {
  const Case rows(*network_, 18, 5, 0.2, 1);
  const Outputs all = Infer(network_.get(), rows.view());
  const BatchBuilder output = RandomRows(network_->output_spec(), rows.rows.capacity_rows(), 2);
  std::vector<float> last(rows.state.size());
  ASSERT_THAT(network_->InferSequences(rows.view(), output.view(), absl::MakeSpan(last)), IsOk());
  EXPECT_EQ(last, RowsOf(all.states, rows, 4, 5));
  EXPECT_EQ(Values(output.view()), all.values);
  ASSERT_THAT(network_->InferSequences(rows.view(), output.view(), {}), IsOk());
  EXPECT_EQ(Values(output.view()), all.values);
}

// As collectors do it: the states are replaced in place.
TEST_P(RecurrentConformance, StepsOneByOneGiveTheOutputsOfTheSequence) {
  const Case rows(*network_, 18, 7, 0.2, 1);
  const Outputs whole = Infer(network_.get(), rows.view());
  std::vector<float> state = rows.state;
  for (int64_t t = 0; t < rows.length; ++t) {
    SCOPED_TRACE(absl::StrCat("row ", t));
    const Part part(rows, t, t + 1, rows.rows.view());
    const BatchBuilder output = RandomRows(network_->output_spec(), rows.count, 2);
    ASSERT_THAT(network_->InferSequences(part.view(1, state), output.view(), absl::MakeSpan(state)),
                IsOk());
    ExpectNear(state, RowsOf(whole.states, rows, t, t + 1), kRounding);
    std::vector<float> expected;
    int64_t first = 0;
    for (int field = 0; field < network_->output_spec()->size(); ++field) {
      const int64_t elements = network_->output_spec()->field(field).num_elements();
      const auto column =
          absl::MakeConstSpan(whole.values).subspan(first, rows.count * rows.length * elements);
      const std::vector<float> at_t = RowsOf(column, rows, t, t + 1);
      expected.insert(expected.end(), at_t.begin(), at_t.end());
      first += static_cast<int64_t>(column.size());
    }
    ExpectNear(Values(output.view()), expected, kRounding);
  }
}

TEST_P(RecurrentConformance, SequencesDoNotDependOnEachOther) {
  const Case rows(*network_, 37, 4, 0.2, 1);
  const Outputs all = Infer(network_.get(), rows.view());
  for (int64_t i = 0; i < rows.count; ++i) {
    SCOPED_TRACE(absl::StrCat("sequence ", i));
    const Outputs one = Infer(network_.get(), rows.One(i));
    const int64_t size = rows.length * network_->state_size();
    ExpectNear(one.states, absl::MakeConstSpan(all.states).subspan(i * size, size), kRounding);
  }
}

TEST_P(RecurrentConformance, TheStateBeforeTheFirstRowOfAnEpisodeIsZero) {
  constexpr int64_t kFirst = 2;
  Case rows(*network_, 6, 5, 0, 1);
  for (int64_t i = 0; i < rows.count; ++i) rows.is_first[i * rows.length + kFirst] = 1;
  // What a broken episode leaves behind must not reach the next one.
  rows.state[0] = std::numeric_limits<float>::quiet_NaN();
  const Outputs whole = Infer(network_.get(), rows.view());
  const Part rest(rows, kFirst, rows.length, rows.rows.view());
  const Outputs expected = Infer(network_.get(), rest.view(rows.length - kFirst, {}));
  ExpectNear(RowsOf(whole.states, rows, kFirst, rows.length), expected.states, kRounding);
}

// Along the gradient the loss must rise by |gradient| per unit. Each tensor is checked separately.
TEST_P(RecurrentConformance, GradientsAgreeWithFiniteDifferences) {
  // float32 outputs have an error of about 1e-6, so that the difference quotient has one of 1e-3.
  constexpr double kStep = 1e-3;
  constexpr double kTolerance = 5e-3;
  const Case rows(*network_, 3, 5, 0.2, 1);
  const std::vector<float> weights = Values(rows.d_output.view());
  const std::vector<float> gradients = Gradients(network_.get(), rows.view(), rows.d_output.view());
  const std::vector<float> start = Copy(network_->parameters());
  for (const ParameterInfo& info : network_->parameter_info()) {
    SCOPED_TRACE(info.name);
    const auto gradient =
        absl::MakeConstSpan(gradients).subspan(info.offset, NumElements(info.shape));
    double square = 0;
    for (const float value : gradient) square += double{value} * value;
    ASSERT_GT(square, 0) << "the gradient is zero: the case tests nothing";
    const auto loss_at = [&](double step) {
      for (size_t i = 0; i < gradient.size(); ++i) {
        network_->parameters()[info.offset + i] =
            static_cast<float>(start[info.offset + i] + step * gradient[i] / std::sqrt(square));
      }
      const std::vector<float> outputs = Infer(network_.get(), rows.view()).values;
      std::copy(start.begin(), start.end(), network_->parameters().begin());
      double loss = 0;
      for (size_t i = 0; i < outputs.size(); ++i) loss += double{outputs[i]} * weights[i];
      return loss;
    };
    EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), std::sqrt(square),
                kTolerance + 1e-2 * std::sqrt(square));
  }
}

TEST_P(RecurrentConformance, GradientOfABatchIsTheSumOfItsSequences) {
  for (const int64_t count : {int64_t{3}, int64_t{16}, int64_t{21}}) {
    SCOPED_TRACE(absl::StrCat(count, " sequences"));
    const Case rows(*network_, count, 4, 0.2, 1);
    std::vector<float> sum(network_->gradients().size());
    for (int64_t i = 0; i < count; ++i) {
      const std::vector<float> part =
          Gradients(network_.get(), rows.One(i),
                    ColumnsView(rows.d_output.view()).Slice(i * rows.length, rows.length));
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += part[k];
    }
    ExpectNear(Gradients(network_.get(), rows.view(), rows.d_output.view()), sum, 1e-4f);
  }
}

TEST_P(RecurrentConformance, NoGradientFlowsIntoAnEarlierEpisode) {
  constexpr int64_t kFirst = 2;
  Case rows(*network_, 4, 5, 0, 1);
  for (int64_t i = 0; i < rows.count; ++i) rows.is_first[i * rows.length + kFirst] = 1;
  std::vector<float> sum(network_->gradients().size());
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, kFirst}, {kFirst, rows.length}}) {
    const Part part(rows, begin, end, rows.rows.view());
    const Part d_part(rows, begin, end, rows.d_output.view());
    const std::vector<float> gradients =
        Gradients(network_.get(), part.view(end - begin, rows.state), d_part.rows.view());
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += gradients[k];
  }
  ExpectNear(Gradients(network_.get(), rows.view(), rows.d_output.view()), sum, 1e-4f);
}

TEST_P(RecurrentConformance, BurnInComputesTheStateOnly) {
  constexpr int64_t kBurnIn = 3;
  const Case rows(*network_, 5, 7, 0.15, 1);
  const Outputs whole = Infer(network_.get(), rows.view());
  Sequences burning = rows.view();
  burning.burn_in = kBurnIn;
  EXPECT_EQ(Infer(network_.get(), burning).values, whole.values);
  // The gradients are those of the rest, as if its state came from somewhere else.
  const Part rest(rows, kBurnIn, rows.length, rows.rows.view());
  const Part d_rest(rows, kBurnIn, rows.length, rows.d_output.view());
  const std::vector<float> state = RowsOf(whole.states, rows, kBurnIn - 1, kBurnIn);
  const std::vector<float> expected =
      Gradients(network_.get(), rest.view(rows.length - kBurnIn, state), d_rest.rows.view());
  ExpectNear(Gradients(network_.get(), burning, rows.d_output.view()), expected, 1e-4f);
  // The output gradients of burn-in rows do not matter.
  const BatchBuilder d_output = RandomRows(network_->output_spec(), rows.count * rows.length, 1);
  CopyRows(rows.d_output.view(), d_output.view(), 0);
  for (int field = 0; field < d_output.spec().size(); ++field) {
    const int64_t elements = d_output.spec().field(field).num_elements();
    for (int64_t i = 0; i < rows.count; ++i) {
      std::fill_n(d_output.column<float>(field).begin() + i * rows.length * elements,
                  kBurnIn * elements, 1e6f);
    }
  }
  ExpectNear(Gradients(network_.get(), burning, d_output.view()), expected, 1e-4f);
}

TEST_P(RecurrentConformance, BackwardOverwritesGradientsAndIsDeterministic) {
  const Case rows(*network_, 20, 6, 0.2, 1);
  const std::vector<float> first = Gradients(network_.get(), rows.view(), rows.d_output.view());
  const Case others(*network_, 33, 9, 0.2, 7);
  Gradients(network_.get(), others.view(), others.d_output.view());
  std::fill(network_->gradients().begin(), network_->gradients().end(), 7.0f);
  EXPECT_EQ(Gradients(network_.get(), rows.view(), rows.d_output.view()), first);
}

TEST_P(RecurrentConformance, InferBetweenForwardAndBackwardChangesNothing) {
  const Case rows(*network_, 20, 3, 0.2, 1);
  const std::vector<float> expected = Gradients(network_.get(), rows.view(), rows.d_output.view());
  const BatchBuilder output = RandomRows(network_->output_spec(), 60, 3);
  ASSERT_THAT(network_->ForwardSequences(rows.view(), output.view(), {}), IsOk());
  Infer(network_.get(), Case(*network_, 40, 5, 0.2, 5).view());
  ASSERT_THAT(network_->Backward(rows.d_output.view()), IsOk());
  EXPECT_EQ(Copy(network_->gradients()), expected);
}

TEST_P(RecurrentConformance, AcceptsNoSequences) {
  const Case rows(*network_, 1, 4, 0, 1);
  Sequences none;
  none.rows = ColumnsView(rows.rows.view()).Slice(0, 0);
  none.length = 4;
  EXPECT_THAT(network_->InferSequences(none, rows.d_output.view().Slice(0, 0), {}), IsOk());
  ASSERT_THAT(network_->ForwardSequences(none, rows.d_output.view().Slice(0, 0), {}), IsOk());
  ASSERT_THAT(network_->Backward(rows.d_output.view().Slice(0, 0)), IsOk());
  EXPECT_THAT(Copy(network_->gradients()), testing::Each(0.0f));
}

TEST_P(RecurrentConformance, RefusesSizesThatDoNotFitTogether) {
  const Case rows(*network_, 2, 3, 0.2, 1);
  const BatchBuilder output = RandomRows(network_->output_spec(), 6, 2);
  std::vector<float> states(6 * network_->state_size());
  const auto expect_refused = [&](const Sequences& sequences, size_t num_states,
                                  const std::string& what) {
    const auto refused = IsInvalid(what);
    const auto span = absl::MakeSpan(states).subspan(0, num_states);
    EXPECT_THAT(network_->InferSequences(sequences, output.view(), span), refused);
    EXPECT_THAT(network_->ForwardSequences(sequences, output.view(), span), refused);
  };
  ASSERT_THAT(network_->ForwardSequences(rows.view(), output.view(), {}), IsOk());
  for (const int64_t length : {0, 4, -1}) {
    Sequences wrong = rows.view();
    wrong.length = length;
    expect_refused(wrong, 0, absl::StrCat("6 rows are no sequences of length ", length));
  }
  for (const int64_t burn_in : {3, -1}) {
    Sequences wrong = rows.view();
    wrong.burn_in = burn_in;
    expect_refused(wrong, 0, absl::StrCat("burn_in is ", burn_in));
  }
  Sequences wrong = rows.view();
  wrong.state.remove_suffix(1);
  expect_refused(wrong, 0, absl::StrCat(rows.state.size() - 1, " floats of state"));
  wrong = rows.view();
  wrong.is_first.remove_suffix(1);
  expect_refused(wrong, 0, "is_first has 5 elements for 6 rows");
  expect_refused(rows.view(), states.size() - 1,
                 absl::StrCat("room for ", states.size() - 1, " floats of states"));
  EXPECT_THAT(network_->Backward(rows.d_output.view()), IsOk()) << "a refused call left a trace";
  EXPECT_THAT(network_->InferSequences(rows.view(), output.view().Slice(0, 5), {}),
              IsInvalid("6 input rows", "5 output rows"));
}

}  // namespace

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecurrentConformance);

}  // namespace ding
