#include "ding_worker/policy/adam_loops.h"

#include <cmath>
#include <vector>

#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "gtest/gtest.h"

namespace ding::internal_adam {
namespace {

constexpr uint64_t kSeed = 5;

std::vector<float> RandomFloats(int64_t size, double low, double high, Rng* rng) {
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = static_cast<float>(rng->Uniform(low, high));
  return values;
}

// Runs for every instruction set of this processor.
class AdamLoopsTest : public testing::TestWithParam<InstructionSet> {};

INSTANTIATE_TEST_SUITE_P(All, AdamLoopsTest, testing::ValuesIn(SupportedInstructionSets()),
                         [](const auto& info) { return InstructionSetName(info.param); });

TEST_P(AdamLoopsTest, StepAgreesWithTheDefinition) {
  const AdamLoops& loops = AdamLoopsFor(GetParam());
  const AdamFactors f = {0.9f, 0.1f, 0.99f, 0.01f, 0.02f, 0.003f, 1.7f, 1e-4f};
  Rng rng(kSeed, "adam_loops_test");
  for (int64_t size = 0; size <= 70; ++size) {  // Covers all lengths of the last vector.
    const std::vector<float> gradient = RandomFloats(size + 1, -1, 1, &rng);
    const std::vector<float> first = RandomFloats(size + 1, -1, 1, &rng);
    const std::vector<float> second = RandomFloats(size + 1, 0, 1, &rng);
    const std::vector<float> parameter = RandomFloats(size + 1, -1, 1, &rng);
    std::vector<float> m = first, v = second, p = parameter;
    loops.step(f, size, gradient.data(), m.data(), v.data(), p.data());
    for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
      const double g = gradient[i] + double{f.weight_decay} * parameter[i];
      const double new_m = double{f.beta1} * first[i] + double{f.one_minus_beta1} * g;
      const double new_v = double{f.beta2} * second[i] + double{f.one_minus_beta2} * g * g;
      const double step =
          f.step_size * new_m / (std::sqrt(new_v) * f.inverse_sqrt_correction2 + f.eps);
      EXPECT_NEAR(m[i], new_m, 1e-6) << i << " of " << size;
      EXPECT_NEAR(v[i], new_v, 1e-6) << i << " of " << size;
      EXPECT_NEAR(p[i], parameter[i] - step, 1e-6) << i << " of " << size;
    }
    const auto end = static_cast<size_t>(size);  // Elements after the end must not change.
    EXPECT_EQ(m[end], first[end]);
    EXPECT_EQ(v[end], second[end]);
    EXPECT_EQ(p[end], parameter[end]);
  }
}

TEST_P(AdamLoopsTest, SumOfSquaresAgreesWithTheDefinition) {
  Rng rng(kSeed, "adam_loops_test/sum");
  for (int64_t size = 0; size <= 70; ++size) {
    const std::vector<float> values = RandomFloats(size, -1, 1, &rng);
    double expected = 0;
    for (const float value : values) expected += double{value} * value;
    EXPECT_NEAR(AdamLoopsFor(GetParam()).sum_of_squares(values.data(), size), expected, 1e-12);
  }
}

}  // namespace
}  // namespace ding::internal_adam
