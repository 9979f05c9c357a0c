// An Mlp with a team of threads computes the same bytes as one without.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/mlp/mlp.h"
#include "ding_worker/policy/testing/network_test_cases.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

std::vector<MlpTestCase> AllCases() {
  std::vector<MlpTestCase> cases = MlpTestCases();
  const std::vector<MlpTestCase> normalized = NormalizedMlpTestCases();
  cases.insert(cases.end(), normalized.begin(), normalized.end());
  return cases;
}

std::unique_ptr<Mlp> Create(const MlpTestCase& c) {
  auto mlp = Mlp::Create(c.options, *MakeSpec(c.input), *MakeSpec(c.output), /*seed=*/7);
  EXPECT_THAT(mlp, IsOk());
  return *std::move(mlp);
}

int64_t InputWidth(const Mlp& mlp) {
  int64_t width = 0;
  for (const FieldSpec& field : mlp.input_spec()->fields()) width += field.num_elements();
  return width;
}

void Append(const BatchBuilder& rows, std::vector<float>* values) {
  for (int field = 0; field < rows.view().spec().size(); ++field) {
    const auto column = rows.view().column<float>(field);
    values->insert(values->end(), column.begin(), column.end());
  }
}

// Returns all that the passes of `rows` rows compute.
std::vector<float> RunPasses(Mlp* mlp, int64_t rows) {
  std::vector<uint64_t> keys(static_cast<size_t>(rows));
  for (size_t row = 0; row < keys.size(); ++row) keys[row] = 1000 + row;
  const BatchBuilder input = NormalRows(mlp->input_spec(), rows, Rng(7, "mlp_threads_test", 1));
  const BatchBuilder output = NormalRows(mlp->output_spec(), rows, Rng(7, "mlp_threads_test", 2));
  const BatchBuilder d_output = NormalRows(mlp->output_spec(), rows, Rng(7, "mlp_threads_test", 3));
  std::vector<float> d_input(static_cast<size_t>(rows * InputWidth(*mlp)));
  std::vector<float> values;
  mlp->set_dropout_keys(keys);
  EXPECT_THAT(mlp->Infer(input.view(), output.view()), IsOk());
  Append(output, &values);
  EXPECT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  Append(output, &values);
  EXPECT_THAT(mlp->Backward(d_output.view(), absl::MakeSpan(d_input)), IsOk());
  values.insert(values.end(), d_input.begin(), d_input.end());
  values.insert(values.end(), mlp->gradients().begin(), mlp->gradients().end());
  EXPECT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  EXPECT_THAT(mlp->Backward(d_output.view()), IsOk());
  values.insert(values.end(), mlp->gradients().begin(), mlp->gradients().end());
  EXPECT_THAT(mlp->Forward(input.view(), output.view()), IsOk());
  EXPECT_THAT(mlp->BackwardToInput(d_output.view(), 1,
                                   absl::MakeSpan(d_input).subspan(static_cast<size_t>(rows))),
              IsOk());
  values.insert(values.end(), d_input.begin() + rows, d_input.end());
  return values;
}

class MlpThreadsTest : public testing::TestWithParam<MlpTestCase> {};

INSTANTIATE_TEST_SUITE_P(All, MlpThreadsTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(MlpThreadsTest, ManyThreadsComputeTheBytesOfOne) {
  const std::unique_ptr<Mlp> mlp = Create(GetParam());
  // From 2^18 products on the threads share a pass.
  const auto enough =
      (int64_t{1} << 18) / static_cast<int64_t>(mlp->parameters().size()) + int64_t{1};
  for (const int64_t rows : {enough, enough + 13, int64_t{5}}) {
    mlp->set_thread_team(nullptr);
    const std::vector<float> alone = RunPasses(mlp.get(), rows);
    for (const int threads : {2, 3}) {
      DING_ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ThreadTeam> team,
                                ThreadTeam::Create(threads, "a test"));
      mlp->set_thread_team(team.get());
      const std::vector<float> together = RunPasses(mlp.get(), rows);
      ASSERT_EQ(together.size(), alone.size());
      const auto differ = std::mismatch(alone.begin(), alone.end(), together.begin());
      EXPECT_EQ(differ.first, alone.end())
          << rows << " rows, " << threads << " threads: value " << differ.first - alone.begin()
          << " is " << *differ.second << ", alone " << *differ.first;
    }
  }
}

}  // namespace
}  // namespace ding
