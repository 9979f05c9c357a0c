#include "ding_worker/policy/optimizer.h"

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/cpu.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/adam_loops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::ElementsAreArray;

constexpr uint64_t kSeed = 11;

std::vector<float> RandomFloats(Rng* rng, size_t size, double scale = 1) {
  std::vector<float> values(size);
  for (float& value : values) value = static_cast<float>(scale * rng->Normal());
  return values;
}

// Algorithm 1 of the paper in double precision.
class ReferenceAdam {
 public:
  ReferenceAdam(const AdamOptions& options, absl::Span<const float> parameters)
      : options_(options),
        parameters_(parameters.begin(), parameters.end()),
        m_(parameters.size()),
        v_(parameters.size()) {}

  void Step(absl::Span<const float> gradients) {
    ++t_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const double g = gradients[i] + options_.weight_decay * parameters_[i];
      m_[i] = options_.beta1 * m_[i] + (1 - options_.beta1) * g;
      v_[i] = options_.beta2 * v_[i] + (1 - options_.beta2) * g * g;
      const double m_hat = m_[i] / (1 - std::pow(options_.beta1, t_));
      const double v_hat = v_[i] / (1 - std::pow(options_.beta2, t_));
      parameters_[i] -= options_.lr * m_hat / (std::sqrt(v_hat) + options_.eps);
    }
  }
  const std::vector<double>& parameters() const { return parameters_; }

 private:
  const AdamOptions options_;
  int t_ = 0;
  std::vector<double> parameters_;
  std::vector<double> m_;
  std::vector<double> v_;
};

class AdamReferenceTest : public testing::TestWithParam<AdamOptions> {};

TEST_P(AdamReferenceTest, FollowsThePaperFor200Steps) {
  constexpr size_t kSize = 1003;  // Not a multiple of a vector length.
  constexpr int kSteps = 200;
  Rng rng(kSeed, "adam_test");
  std::vector<float> parameters = RandomFloats(&rng, kSize);
  ReferenceAdam reference(GetParam(), parameters);
  DING_ASSERT_OK_AND_ASSIGN(Adam adam, Adam::Create(GetParam(), kSize));
  for (int step = 0; step < kSteps; ++step) {
    // Gradients of very different sizes, so that eps matters for some.
    std::vector<float> gradients = RandomFloats(&rng, kSize);
    for (size_t i = 0; i < kSize; i += 3) gradients[i] *= 1e-7f;
    ASSERT_THAT(adam.Step(gradients, absl::MakeSpan(parameters)), IsOk());
    reference.Step(gradients);
  }
  EXPECT_EQ(adam.num_steps(), kSteps);
  for (size_t i = 0; i < kSize; ++i) {
    // A step is at most about lr and has a relative error of some 1e-6 (float32 moments and
    // divisions); adding it rounds the parameter by 2^-24 of its size, at most 4 here.
    const double tolerance = kSteps * (GetParam().lr * 2e-6 + 4 * 0x1p-24);
    EXPECT_NEAR(parameters[i], reference.parameters()[i], tolerance) << "parameter " << i;
  }
}

AdamOptions MakeOptions(double lr, double beta1, double beta2, double eps, double weight_decay) {
  AdamOptions options;
  options.lr = lr;
  options.beta1 = beta1;
  options.beta2 = beta2;
  options.eps = eps;
  options.weight_decay = weight_decay;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Options, AdamReferenceTest,
                         testing::Values(AdamOptions(), MakeOptions(1e-2, 0.5, 0.9, 1e-5, 0),
                                         MakeOptions(3e-3, 0.9, 0.999, 1e-8, 0.1),
                                         MakeOptions(1e-3, 0, 0, 1e-8, 0)));

TEST(AdamTest, FirstStepIsTheLearningRateAgainstTheGradient) {
  DING_ASSERT_OK_AND_ASSIGN(Adam adam, Adam::Create(MakeOptions(0.5, 0.9, 0.999, 1e-8, 0), 2));
  std::vector<float> parameters = {1, 1};
  ASSERT_THAT(adam.Step({300, -0.01f}, absl::MakeSpan(parameters)), IsOk());
  EXPECT_NEAR(parameters[0], 0.5, 1e-6);
  EXPECT_NEAR(parameters[1], 1.5, 1e-6);
}

TEST(AdamTest, RefusesOptionsOutOfRangeAllAtOnce) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(
      Adam::Create(MakeOptions(-1, 1, nan, 0, -2), 3),
      IsInvalid("lr is -1", "beta1 is 1", "beta2 is nan", "eps is 0", "weight_decay is -2"));
}

class AdamFailureTest : public testing::Test {
 protected:
  void SetUp() override {
    DING_ASSERT_OK_AND_ASSIGN(Adam adam, Adam::Create(AdamOptions(), 40));
    adam_ = std::make_unique<Adam>(std::move(adam));
    Rng rng(kSeed, "adam_test");
    parameters_ = RandomFloats(&rng, 40);
    gradients_ = RandomFloats(&rng, 40);
    ASSERT_THAT(adam_->Step(gradients_, absl::MakeSpan(parameters_)), IsOk());
  }

  std::unique_ptr<Adam> adam_;
  std::vector<float> parameters_;
  std::vector<float> gradients_;
};

TEST_F(AdamFailureTest, NonFiniteGradientChangesNothing) {
  const std::vector<float> before = parameters_;
  StateDict state_before;
  ASSERT_THAT(adam_->SaveState(&state_before), IsOk());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const size_t at :
         {size_t{0}, size_t{17}, size_t{39}}) {  // Within a vector and after the last one.
      std::vector<float> gradients = gradients_;
      gradients[at] = bad;
      EXPECT_THAT(adam_->Step(gradients, absl::MakeSpan(parameters_)),
                  IsInvalid(absl::StrCat("gradient ", at, " of 40 is ")));
      EXPECT_THAT(ClipGradientNorm(absl::MakeSpan(gradients), 1), IsInvalid("clipping gradients"));
    }
  }
  EXPECT_THAT(parameters_, ElementsAreArray(before));
  StateDict state_after;
  ASSERT_THAT(adam_->SaveState(&state_after), IsOk());
  for (const auto& [name, tensor] : state_before.tensors()) {
    EXPECT_TRUE(BitwiseEqual(tensor, *state_after.tensors().Find(name))) << name;
  }
}

TEST_F(AdamFailureTest, RefusesSpansOfAnotherLength) {
  EXPECT_THAT(adam_->Step(absl::MakeSpan(gradients_).subspan(1), absl::MakeSpan(parameters_)),
              IsInvalid("got 39 gradients"));
  EXPECT_THAT(adam_->Step(gradients_, absl::MakeSpan(parameters_).subspan(2)),
              IsInvalid("38 parameters"));
}

TEST_F(AdamFailureTest, LearningRateMustBeANumberAtLeastZero) {
  EXPECT_THAT(adam_->set_lr(-0.1), IsInvalid());
  EXPECT_THAT(adam_->set_lr(std::nan("")), IsInvalid());
  EXPECT_EQ(adam_->lr(), AdamOptions().lr);
}

TEST_F(AdamFailureTest, LoadingAStateOfAnotherSizeChangesNothing) {
  DING_ASSERT_OK_AND_ASSIGN(const Adam other, Adam::Create(AdamOptions(), 41));
  StateDict wrong;
  ASSERT_THAT(other.SaveState(&wrong), IsOk());
  EXPECT_THAT(adam_->LoadState(&wrong), testing::Not(IsOk()));
  EXPECT_EQ(adam_->num_steps(), 1);
}

TEST(AdamTest, ContinuesFromASavedStateWithTheSameBytes) {
  constexpr int64_t kSize = 77;
  Rng rng(kSeed, "adam_test");
  std::vector<float> parameters = RandomFloats(&rng, kSize);
  DING_ASSERT_OK_AND_ASSIGN(Adam adam, Adam::Create(AdamOptions(), kSize));
  for (int step = 0; step < 5; ++step) {
    ASSERT_THAT(adam.Step(RandomFloats(&rng, kSize), absl::MakeSpan(parameters)), IsOk());
  }
  ASSERT_THAT(adam.set_lr(3e-4), IsOk());
  StateDict state;
  ASSERT_THAT(adam.SaveState(&state), IsOk());
  DING_ASSERT_OK_AND_ASSIGN(Adam restored, Adam::Create(AdamOptions(), kSize));
  ASSERT_THAT(restored.LoadState(&state), IsOk());
  EXPECT_EQ(restored.num_steps(), 5);
  EXPECT_EQ(restored.lr(), 3e-4);
  std::vector<float> restored_parameters = parameters;
  for (int step = 0; step < 5; ++step) {
    const std::vector<float> gradients = RandomFloats(&rng, kSize);
    ASSERT_THAT(adam.Step(gradients, absl::MakeSpan(parameters)), IsOk());
    ASSERT_THAT(restored.Step(gradients, absl::MakeSpan(restored_parameters)), IsOk());
  }
  EXPECT_THAT(restored_parameters, ElementsAreArray(parameters));
}

TEST(AdamTest, MomentsDecayToZeroAndNotIntoDenormals) {
  DING_ASSERT_OK_AND_ASSIGN(Adam adam, Adam::Create(AdamOptions(), 16));
  std::vector<float> parameters(16, 1.0f);
  ASSERT_THAT(adam.Step(std::vector<float>(16, 1e-30f), absl::MakeSpan(parameters)), IsOk());
  const std::vector<float> zero(16, 0.0f);
  // 0.9^n * 1e-31 falls below the smallest normal number, 1.2e-38, at n = 152.
  for (int step = 0; step < 160; ++step) {
    ASSERT_THAT(adam.Step(zero, absl::MakeSpan(parameters)), IsOk());
  }
  StateDict state;
  ASSERT_THAT(adam.SaveState(&state), IsOk());
  for (const char* name : {"first_moment", "second_moment"}) {
    EXPECT_THAT(state.tensors().Find(name)->data<float>(), testing::Each(0.0f)) << name;
  }
}

TEST(ClipGradientNormTest, ScalesDownToTheMaximumAndReturnsTheNormBefore) {
  std::vector<float> gradients(25, 0.0f);  // The last elements are after the last full vector.
  gradients[0] = 3;
  gradients[24] = 4;
  DING_ASSERT_OK_AND_ASSIGN(double norm, ClipGradientNorm(absl::MakeSpan(gradients), 0.5));
  EXPECT_DOUBLE_EQ(norm, 5);
  EXPECT_FLOAT_EQ(gradients[0], 0.3f);
  EXPECT_FLOAT_EQ(gradients[24], 0.4f);
  DING_ASSERT_OK_AND_ASSIGN(norm, ClipGradientNorm(absl::MakeSpan(gradients), 0.6));
  EXPECT_FLOAT_EQ(norm, 0.5f);
  EXPECT_FLOAT_EQ(gradients[0], 0.3f);  // Below the maximum nothing changes.
}

TEST(ClipGradientNormTest, MaximumMustBeAboveZero) {
  std::vector<float> gradients = {1, 2};
  EXPECT_THAT(ClipGradientNorm(absl::MakeSpan(gradients), 0), IsInvalid("max_norm is 0"));
  EXPECT_THAT(gradients, testing::ElementsAre(1, 2));
}

using internal_adam::AdamFactors;
using internal_adam::AdamLoops;
using internal_adam::AdamLoopsFor;

constexpr uint64_t kLoopsSeed = 5;

std::vector<float> UniformFloats(int64_t size, double low, double high, Rng* rng) {
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
  Rng rng(kLoopsSeed, "adam_loops_test");
  for (int64_t size = 0; size <= 70; ++size) {  // Covers all lengths of the last vector.
    const std::vector<float> gradient = UniformFloats(size + 1, -1, 1, &rng);
    const std::vector<float> first = UniformFloats(size + 1, -1, 1, &rng);
    const std::vector<float> second = UniformFloats(size + 1, 0, 1, &rng);
    const std::vector<float> parameter = UniformFloats(size + 1, -1, 1, &rng);
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
  Rng rng(kLoopsSeed, "adam_loops_test/sum");
  for (int64_t size = 0; size <= 70; ++size) {
    const std::vector<float> values = UniformFloats(size, -1, 1, &rng);
    double expected = 0;
    for (const float value : values) expected += double{value} * value;
    EXPECT_NEAR(AdamLoopsFor(GetParam()).sum_of_squares(values.data(), size), expected, 1e-12);
  }
}

TEST(TargetUpdate, HardCopiesEveryFreqIterations) {
  const TargetUpdate update{3, 0};
  std::vector<float> target = {0, 0};
  for (int64_t iter = 1; iter <= 7; ++iter) {
    const std::vector<float> online = {static_cast<float>(iter), static_cast<float>(-iter)};
    UpdateTarget(update, iter, online, absl::MakeSpan(target));
    EXPECT_EQ(target[0], static_cast<float>(iter / 3 * 3)) << "iteration " << iter;
    EXPECT_EQ(target[1], -target[0]);
  }
}

TEST(TargetUpdate, SoftMovesByThetaEveryIteration) {
  std::vector<float> target(19, 1.0f);
  const std::vector<float> online(19, 5.0f);
  UpdateTarget({0, 0.25}, 1, online, absl::MakeSpan(target));
  EXPECT_EQ(target, std::vector<float>(19, 2.0f));
  UpdateTarget({0, 0.25}, 2, online, absl::MakeSpan(target));
  EXPECT_EQ(target, std::vector<float>(19, 2.75f));
}

TEST(TargetUpdate, RequiresExactlyOneKind) {
  EXPECT_THAT(Validate({1, 0}), IsOk());
  EXPECT_THAT(Validate({0, 1}), IsOk());
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const TargetUpdate& bad :
       {TargetUpdate{0, 0}, TargetUpdate{100, 0.1}, TargetUpdate{-1, 0}, TargetUpdate{-1, 0.1},
        TargetUpdate{0, 1.5}, TargetUpdate{0, -0.1}, TargetUpdate{0, kNan}}) {
    EXPECT_THAT(Validate(bad), IsInvalid("freq is")) << bad.freq << " " << bad.theta;
  }
}

}  // namespace
}  // namespace ding
