// Passes must not allocate while sizes repeat, also if collecting and learning alternate: the
// allocator would take as much time as a layer, and fragment memory over billions of calls.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/allocation_count.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/network.h"
#include "ding_worker/policy/rnn/rnn.h"
#include "ding_worker/policy/rnn/rnn_structure.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kSequences = 20;
constexpr int64_t kLength = 6;
constexpr int64_t kEnvs = 5;

class RnnAllocation : public testing::TestWithParam<RnnCell> {};

INSTANTIATE_TEST_SUITE_P(Cells, RnnAllocation, testing::Values(RnnCell::kLstm, RnnCell::kGru));

TEST_P(RnnAllocation, AllocatesNothingWhileSizesRepeat) {
  RnnOptions options;
  options.cell = GetParam();
  options.hidden_size = 12;
  options.mlp.encoder_hidden_size = {10};
  options.mlp.dueling = true;
  const auto rnn =
      *Rnn::Create(options, *MakeSpec({Box("obs", {4})}), *MakeSpec({Box("q", {2})}), 0);
  const BatchBuilder input = *BatchBuilder::Create(rnn->input_spec(), kSequences * kLength);
  const BatchBuilder output = *BatchBuilder::Create(rnn->output_spec(), kSequences * kLength);
  const auto elements = input.column<float>(0);
  std::fill(elements.begin(), elements.end(), 0.5f);
  const std::vector<uint8_t> is_first(kSequences * kLength, 0);
  std::vector<float> states(kSequences * rnn->state_size());
  Sequences sequences;
  sequences.rows = input.view();
  sequences.length = kLength;
  sequences.state = states;
  sequences.is_first = is_first;
  sequences.burn_in = 2;
  Sequences step;
  step.rows = sequences.rows.Slice(0, kEnvs);
  step.state = sequences.state.subspan(0, kEnvs * rnn->state_size());
  const auto states_of_step = absl::MakeSpan(states).subspan(0, step.state.size());
  int64_t before = 0;
  for (int i = 0; i < 10; ++i) {
    if (i == 1) before = AllocationCount();
    const bool ok = rnn->InferSequences(step, output.view(), states_of_step).ok() &&
                    rnn->InferSequences(sequences, output.view(), {}).ok() &&
                    rnn->ForwardSequences(sequences, output.view(), {}).ok() &&
                    rnn->Backward(output.view()).ok();
    ASSERT_TRUE(ok);
  }
  EXPECT_GT(before, 0) << "the counter does not count";
  EXPECT_EQ(AllocationCount() - before, 0);
}

}  // namespace
}  // namespace ding
