#include "ding_worker/policy/dqn/dqn.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/loss/td_loss.h"
#include "ding_worker/policy/q_learning/q_network.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kInputs = 3;
constexpr int64_t kActions = 4;

std::unique_ptr<DqnPolicy> MakeDqn(const DqnOptions& options, int64_t inputs = kInputs,
                                   int64_t actions = kActions) {
  auto network = std::make_unique<LinearNetwork>(VectorObservation(inputs),
                                                 *MakeSpec({Box("q", {actions})}), options.seed);
  return *DqnPolicy::Create(std::move(network), DiscreteAction(actions), options);
}

Batch Transitions(int64_t rows, uint64_t seed) {
  return MakeTransitionBatch(VectorObservation(kInputs), DiscreteAction(kActions), rows, seed);
}

std::vector<float> Copy(absl::Span<const float> values) { return {values.begin(), values.end()}; }

// Returns the batch with a column "weight".
Batch WithWeights(const Batch& batch, absl::Span<const float> weights) {
  std::vector<FieldSpec> fields(batch.spec().fields().begin(), batch.spec().fields().end());
  fields.push_back(Scalar(kColumnWeight, DType::kFloat32));
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(std::move(fields)), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  std::copy(weights.begin(), weights.end(),
            builder.column<float>(builder.spec().size() - 1).begin());
  return std::move(builder).Seal(batch.rows());
}

// Computes the loss of a linear network with `parameters` by its definition, in float64. The
// parameters `chooser` choose the action of the bootstrap; no gradient flows through the choice.
double LossByHand(const Batch& batch, absl::Span<const float> parameters,
                  absl::Span<const float> target_parameters, absl::Span<const float> chooser) {
  const auto q = [&](absl::Span<const float> p, const char* column, int64_t row, int64_t a) {
    const absl::Span<const float> x = batch.column<float>(column);
    double sum = p[kActions * kInputs + a];
    for (int64_t n = 0; n < kInputs; ++n) {
      sum += static_cast<double>(p[a * kInputs + n]) * x[row * kInputs + n];
    }
    return sum;
  };
  double loss = 0;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    int64_t best = 0;
    for (int64_t a = 1; a < kActions; ++a) {
      if (q(chooser, "next_obs", row, a) > q(chooser, "next_obs", row, best)) best = a;
    }
    const double target =
        batch.column<float>("reward")[row] +
        batch.column<float>("discount")[row] * q(target_parameters, "next_obs", row, best);
    const double td = q(parameters, "obs", row, batch.column<int64_t>("action")[row]) - target;
    loss += batch.column<float>("weight")[row] * td * td;
  }
  return loss / static_cast<double>(batch.rows());
}

class DqnLoss : public testing::TestWithParam<bool> {};

TEST_P(DqnLoss, LossAndGradientEqualTheDefinition) {
  DqnOptions options;
  options.seed = 3;
  options.double_q = GetParam();
  options.learn.priority = true;
  options.adam.lr = 0.05;
  const auto policy = MakeDqn(options);
  const std::vector<float> target = Copy(policy->network().parameters());
  std::vector<LearnStep> steps;
  // Train first, so that the network differs from the target network.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ASSERT_THAT(policy->learn_mode()->Forward(Transitions(8, seed), {}, &steps), IsOk());
  }
  std::vector<float> weights;
  for (int i = 0; i < 32; ++i) weights.push_back(0.1f + 0.03f * static_cast<float>(i));
  const Batch batch = WithWeights(Transitions(32, 77), weights);
  const std::vector<float> before = Copy(policy->network().parameters());
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());

  const std::vector<float>& chooser = GetParam() ? before : target;
  const std::vector<float>& other_chooser = GetParam() ? target : before;
  const double loss = LossByHand(batch, before, target, chooser);
  EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), loss, 1e-5);
  EXPECT_GT(std::abs(loss - LossByHand(batch, before, target, other_chooser)), 1e-3)
      << "this batch cannot tell double from plain";
  const absl::Span<const float> gradients = policy->network().gradients();
  std::vector<float> moved = before;
  ExpectGradientsOf([&] { return LossByHand(batch, moved, target, chooser); },
                    absl::MakeSpan(moved), gradients, 1.0f / 1024, 2e-4);
}

INSTANTIATE_TEST_SUITE_P(DoubleAndPlain, DqnLoss, testing::Bool(),
                         [](const auto& info) { return info.param ? "Double" : "Plain"; });

// Adds the target network's value of the action to the reward, and bootstraps from action 0.
class OwnTarget : public ValueHead {
 public:
  absl::Status ComputeTarget(const QTargetInput& input, absl::Span<float> reward,
                             absl::Span<float> next) override {
    DING_ASSIGN_OR_RETURN(const absl::Span<const float> target, input.target_of_obs());
    for (size_t row = 0; row < next.size(); ++row) {
      const size_t begin = row * static_cast<size_t>(input.num_actions);
      reward[row] += target[begin + static_cast<size_t>(input.action[row])];
      next[row] = input.next[begin];
    }
    return absl::OkStatus();
  }
};

TEST(Dqn, AHeadOfOnesOwnComputesTheTarget) {
  auto network = std::make_unique<LinearNetwork>(VectorObservation(kInputs),
                                                 *MakeSpec({Box("q", {kActions})}), 0);
  DING_ASSERT_OK_AND_ASSIGN(
      const auto policy,
      DqnPolicy::Create(std::move(network), DiscreteAction(kActions), {}, /*observation=*/nullptr,
                        {"mine", std::make_unique<OwnTarget>()}));
  const Batch batch = Transitions(16, 5);
  const absl::Span<const float> p = policy->network().parameters();
  double loss = 0;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    double next = p[kActions * kInputs];
    for (int64_t n = 0; n < kInputs; ++n) {
      next += p[n] * batch.column<float>("next_obs")[row * kInputs + n];
    }
    // The value of the action is in the target, too: the networks are equal yet.
    const double td =
        batch.column<float>("reward")[row] + batch.column<float>("discount")[row] * next;
    loss += td * td / static_cast<double>(batch.rows());
  }
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), loss, 1e-5);
}

TEST(Dqn, PrioritiesAreTheAbsoluteErrorsWithoutWeights) {
  DqnOptions options;
  options.learn.priority = true;
  const auto policy = MakeDqn(options);
  const auto unweighted = MakeDqn(options);
  const Batch batch = Transitions(5, 1);
  std::vector<LearnStep> steps, unweighted_steps;
  ASSERT_THAT(unweighted->learn_mode()->Forward(batch, {}, &unweighted_steps), IsOk());
  ASSERT_THAT(policy->learn_mode()->Forward(WithWeights(batch, {0, 0, 0, 0, 0}), {}, &steps),
              IsOk());
  EXPECT_EQ(steps[0].priority, unweighted_steps[0].priority);
  double sum = 0;
  for (const float priority : steps[0].priority) {
    EXPECT_GE(priority, 0);
    sum += static_cast<double>(priority) * priority / 5;
  }
  EXPECT_NEAR(*unweighted_steps[0].scalars.Get("total_loss"), sum, 1e-6);
  EXPECT_EQ(*steps[0].scalars.Get("total_loss"), 0);
}

TEST(Dqn, ReportsTheTdErrorsAndEveryTenthTimeTheGradientNorm) {
  DqnOptions options;
  options.learn.priority = true;
  options.grad_clip_norm = 1e-3;
  const auto policy = MakeDqn(options);
  std::vector<LearnStep> steps;
  for (int iter = 1; iter <= 20; ++iter) {
    const Batch batch = Transitions(5, static_cast<uint64_t>(iter));
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
    ASSERT_EQ(steps[0].histograms.size(), 1u);
    EXPECT_EQ(steps[0].histograms[0].first, "td_error");
    const std::vector<float>& errors = steps[0].histograms[0].second;
    ASSERT_EQ(errors.size(), 5u);
    double sum = 0;
    for (size_t i = 0; i < errors.size(); ++i) {
      EXPECT_EQ(std::abs(errors[i]), steps[0].priority[i]);
      sum += std::abs(errors[i]);
    }
    EXPECT_NEAR(*steps[0].scalars.Get("td_error"), sum / 5, 1e-6);
    const std::optional<double> norm = steps[0].scalars.Get("grad_norm");
    EXPECT_EQ(norm.has_value(), iter % 10 == 0) << iter;
    EXPECT_GT(norm.value_or(1), 2 * options.grad_clip_norm) << "it is that before clipping";
  }
}

TEST(Dqn, ReportsNoPrioritiesUnlessConfigured) {
  const auto policy = MakeDqn({});
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(Transitions(5, 1), {}, &steps), IsOk());
  EXPECT_TRUE(steps[0].priority.empty());
}

// Returns the tensor `name` of the saved train state.
std::vector<float> Saved(DqnPolicy* policy, const std::string& name) {
  StateDict state;
  EXPECT_THAT(policy->learn_mode()->SaveModel(&state), IsOk());
  EXPECT_THAT(policy->learn_mode()->SaveTrainState(&state), IsOk());
  return Copy(state.tensors().Find(name)->data<float>());
}

TEST(Dqn, TheTargetNetworkFollowsAsConfigured) {
  DqnOptions hard_options;
  hard_options.target_update = {3, 0};
  DqnOptions soft_options;
  soft_options.target_update = {0, 0.25};
  const auto hard = MakeDqn(hard_options);
  const auto soft = MakeDqn(soft_options);
  std::vector<float> hard_target = Saved(hard.get(), "model/linear/weight");
  std::vector<float> soft_target = hard_target;
  std::vector<LearnStep> steps;
  for (int iter = 1; iter <= 7; ++iter) {
    const Batch batch = Transitions(8, iter);
    ASSERT_THAT(hard->learn_mode()->Forward(batch, {}, &steps), IsOk());
    ASSERT_THAT(soft->learn_mode()->Forward(batch, {}, &steps), IsOk());
    if (iter % 3 == 0) hard_target = Saved(hard.get(), "model/linear/weight");
    EXPECT_EQ(Saved(hard.get(), "target_model/linear/weight"), hard_target) << iter;
    const std::vector<float> online = Saved(soft.get(), "model/linear/weight");
    for (size_t i = 0; i < online.size(); ++i) {
      soft_target[i] = 0.75f * soft_target[i] + 0.25f * online[i];
    }
    EXPECT_EQ(Saved(soft.get(), "target_model/linear/weight"), soft_target) << iter;
  }
}

TEST(Dqn, LoadingAModelSetsTheTargetNetworkToo) {
  DqnOptions options;
  options.seed = 1;
  const auto source = MakeDqn(options);
  options.seed = 2;
  const auto policy = MakeDqn(options);
  StateDict model;
  ASSERT_THAT(source->learn_mode()->SaveModel(&model), IsOk());
  ASSERT_THAT(policy->learn_mode()->LoadModel(&model), IsOk());
  EXPECT_EQ(Saved(policy.get(), "target_model/linear/weight"),
            Saved(source.get(), "model/linear/weight"));
}

TEST(Dqn, ALongGradientIsScaledToTheClipNorm) {
  DqnOptions options;
  options.grad_clip_norm = 0.01;
  const auto policy = MakeDqn(options);
  std::vector<LearnStep> steps;
  ASSERT_THAT(policy->learn_mode()->Forward(Transitions(8, 1), {}, &steps), IsOk());
  double squares = 0;
  for (const float g : policy->network().gradients()) squares += static_cast<double>(g) * g;
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-5);
}

// A chain of five states. "right" moves up, and after the last state ends the episode with reward
// 1; "left" moves down, has reward -0.1, and may be truncated by a time limit. Observations are
// one-hot.
constexpr int64_t kStates = 5;
constexpr double kGamma = 0.9;

// Q*(state, action), computed by hand: moving right from s has the value gamma^(4 - s).
double OptimalQ(int64_t state, int64_t action) {
  if (action == 1) return std::pow(kGamma, kStates - 1 - state);
  const int64_t next = std::max<int64_t>(state - 1, 0);
  return -0.1 + kGamma * std::pow(kGamma, kStates - 1 - next);
}

// All pairs of state and action; "right" with two-step windows, which stay on the best path.
Batch ChainBatch() {
  BatchBuilder builder = *BatchBuilder::Create(
      *MakeSpec({Box("obs", {kStates}), Discrete("action", 2), Box("next_obs", {kStates}),
                 Scalar("reward", DType::kFloat32), Scalar("discount", DType::kFloat32)}),
      2 * kStates);
  for (int field : {0, 2}) {
    const absl::Span<float> column = builder.column<float>(field);
    std::fill(column.begin(), column.end(), 0.0f);
  }
  for (int64_t state = 0; state < kStates; ++state) {
    for (int64_t action = 0; action < 2; ++action) {
      const int64_t row = 2 * state + action;
      NStepReturn window;
      int64_t next = 0;
      if (action == 0) {
        window = ComputeNStepReturn({-0.1f}, SegmentEnd::kTruncated, 2, kGamma);
        next = std::max<int64_t>(state - 1, 0);
      } else if (state >= kStates - 2) {
        const std::vector<float> last = {0, 1};
        window = ComputeNStepReturn(absl::MakeSpan(last).subspan(state - (kStates - 2)),
                                    SegmentEnd::kTerminated, 2, kGamma);
      } else {
        window = ComputeNStepReturn({0, 0}, SegmentEnd::kCut, 2, kGamma);
        next = state + 2;
      }
      builder.column<float>(0)[row * kStates + state] = 1;
      builder.column<int64_t>(1)[row] = action;
      builder.column<float>(2)[row * kStates + next] = 1;
      builder.column<float>(3)[row] = window.reward;
      builder.column<float>(4)[row] = window.bootstrap_discount;
    }
  }
  return std::move(builder).Seal(2 * kStates);
}

class DqnChain : public testing::TestWithParam<std::tuple<bool, bool, TdLossKind>> {};

TEST_P(DqnChain, ConvergesToTheOptimalValues) {
  const auto [double_q, soft, loss] = GetParam();
  DqnOptions options;
  options.seed = 11;
  options.adam.lr = 0.02;
  options.double_q = double_q;
  options.loss.kind = loss;
  options.target_update = soft ? TargetUpdate{0, 0.05} : TargetUpdate{25, 0};
  const auto policy = MakeDqn(options, kStates, 2);
  const Batch batch = ChainBatch();
  std::vector<LearnStep> steps;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  }
  for (int64_t state = 0; state < kStates; ++state) {
    for (int64_t action = 0; action < 2; ++action) {
      const absl::Span<const float> p = policy->network().parameters();
      EXPECT_NEAR(p[action * kStates + state] + p[2 * kStates + action], OptimalQ(state, action),
                  0.005)
          << "state " << state << ", action " << action;
    }
  }
  EXPECT_LT(*steps[0].scalars.Get("total_loss"), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DqnChain,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(TdLossKind::kMse, TdLossKind::kHuber)));

// Returns the actions of a forward pass on zero observations.
template <typename Mode>
std::vector<int64_t> Act(Mode* mode, const NamedValues& settings, int64_t rows) {
  const BatchBuilder obs = *BatchBuilder::Create(VectorObservation(kInputs), rows);
  std::fill(obs.column<float>(0).begin(), obs.column<float>(0).end(), 0.0f);
  const BatchBuilder out = *BatchBuilder::Create(mode->output_spec(), rows);
  EXPECT_THAT(mode->Forward(obs.view(), {}, settings, out.view()), IsOk());
  const absl::Span<const int64_t> actions = out.column<int64_t>(0);
  return {actions.begin(), actions.end()};
}

TEST(Dqn, EpsilonIsTheShareOfUniformActions) {
  const auto policy = MakeDqn({});
  // On zero observations the values are the biases.
  const absl::Span<float> bias = policy->network().parameters().subspan(kActions * kInputs);
  std::fill(bias.begin(), bias.end(), 0.0f);
  bias[2] = 1;
  EXPECT_EQ(Act(policy->collect_mode(), {{"eps", 0}}, 50), std::vector<int64_t>(50, 2));
  EXPECT_EQ(Act(policy->eval_mode(), {}, 50), std::vector<int64_t>(50, 2));
  std::array<int, kActions> count{};
  for (const int64_t action : Act(policy->collect_mode(), {{"eps", 0.4}}, 10000)) {
    ++count.at(static_cast<size_t>(action));
  }
  // 0.6 greedy actions, plus a quarter of the uniform ones; five standard deviations.
  EXPECT_NEAR(count[2], 7000, 230);
  for (const size_t action : {0, 1, 3}) EXPECT_NEAR(count[action], 1000, 150) << action;
}

TEST(Dqn, TakesTheLowestOfActionsWithEqualValues) {
  const auto policy = MakeDqn({});
  const absl::Span<float> parameters = policy->network().parameters();
  std::fill(parameters.begin(), parameters.end(), 0.0f);
  parameters[kActions * kInputs + 1] = 1;
  parameters[kActions * kInputs + 3] = 1;
  EXPECT_EQ(Act(policy->eval_mode(), {}, 3), std::vector<int64_t>(3, 1));
}

TEST(Dqn, RefusesAMissingOrInvalidEpsilon) {
  const auto policy = MakeDqn({});
  const BatchBuilder obs = *BatchBuilder::Create(VectorObservation(kInputs), 1);
  std::fill(obs.column<float>(0).begin(), obs.column<float>(0).end(), 0.0f);
  const BatchBuilder out = *BatchBuilder::Create(DiscreteAction(kActions), 1);
  const auto forward = [&](const NamedValues& settings) {
    return policy->collect_mode()->Forward(obs.view(), {}, settings, out.view());
  };
  EXPECT_THAT(forward({}), IsInvalid("'eps' is missing"));
  for (const double eps : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(forward({{"eps", eps}}), IsInvalid("expected 0..1"));
  }
}

TEST(Dqn, CommandModeReturnsEpsilonByEnvStep) {
  DqnOptions options;
  options.eps = {ScheduleKind::kLinear, 1, 0, 100};
  const auto policy = MakeDqn(options);
  EXPECT_DOUBLE_EQ(*policy->command_mode()->GetSettingCollect({{"envstep", 25}}).Get("eps"), 0.75);
}

TEST(Dqn, NonFiniteDataNamesIterationColumnAndRow) {
  const auto policy = MakeDqn({});
  std::vector<LearnStep> steps;
  const Batch good = Transitions(6, 1);
  ASSERT_THAT(policy->learn_mode()->Forward(good, {}, &steps), IsOk());
  const std::vector<float> parameters = Copy(policy->network().parameters());
  for (const char* column : {"obs", "next_obs", "reward", "discount"}) {
    BatchBuilder builder = *BatchBuilder::Create(good.spec_ptr(), good.rows());
    CopyRows(good.view(), builder.view(), 0);
    const int index = *good.spec().Find(column);
    const int64_t elements = good.spec().field(index).num_elements();
    builder.column<float>(index)[4 * elements] = std::numeric_limits<float>::infinity();
    const Batch bad = std::move(builder).Seal(good.rows());
    EXPECT_THAT(policy->learn_mode()->Forward(bad, {}, &steps),
                IsInternal("train iteration 2", std::string("'") + column + "', row 4 holds inf"));
    EXPECT_EQ(Copy(policy->network().parameters()), parameters);
  }
}

TEST(Dqn, ALossOrGradientThatOverflowsChangesNothing) {
  const auto policy = MakeDqn({});
  const Batch good = Transitions(1, 1);
  BatchBuilder builder = *BatchBuilder::Create(good.spec_ptr(), 1);
  CopyRows(good.view(), builder.view(), 0);
  builder.column<float>(*good.spec().Find("reward"))[0] = std::numeric_limits<float>::max();
  const Batch huge = std::move(builder).Seal(1);
  std::vector<float> parameters = Copy(policy->network().parameters());
  std::vector<LearnStep> steps;
  EXPECT_THAT(policy->learn_mode()->Forward(huge, {}, &steps), IsInternal("gradient"));
  EXPECT_EQ(Copy(policy->network().parameters()), parameters);

  const absl::Span<float> live = policy->network().parameters();
  std::fill(live.begin(), live.end(), std::numeric_limits<float>::infinity());
  parameters = Copy(live);
  EXPECT_THAT(policy->learn_mode()->Forward(good, {}, &steps), IsInternal("the loss is", "row 0"));
  EXPECT_EQ(Copy(policy->network().parameters()), parameters);
}

TEST(Dqn, RefusesBatchesOfAnotherLayoutNamingTheColumn) {
  const auto policy = MakeDqn({});
  std::vector<LearnStep> steps;
  EXPECT_THAT(policy->learn_mode()->Forward(MakeTransitionBatch(VectorObservation(kInputs + 1),
                                                                DiscreteAction(kActions), 4, 1),
                                            {}, &steps),
              IsInvalid("column 'obs'", "[4]", "[3]"));
  // An action that the spec of the batch allows, but for which the network has no value.
  const Batch more =
      MakeTransitionBatch(VectorObservation(kInputs), DiscreteAction(kActions + 1), 64, 1);
  EXPECT_THAT(policy->learn_mode()->Forward(more, {}, &steps),
              IsInvalid("column 'action'", "holds 4, expected 0..3"));
}

TEST(Dqn, RefusesSpacesAndNetworksThatDoNotFit) {
  EXPECT_THAT(CountActions(*MakeSpec({Box("action", {1}, {-1}, {1})}).value()),
              IsInvalid("discrete actions"));
  auto network = std::make_unique<LinearNetwork>(VectorObservation(kInputs),
                                                 *MakeSpec({Box("q", {kActions})}), 0);
  EXPECT_THAT(DqnPolicy::Create(std::move(network), DiscreteAction(kActions + 1), {}),
              IsInvalid("'q' float32[5]", "[4]"));
  DqnOptions options;
  options.target_update = {0, 0};
  network = std::make_unique<LinearNetwork>(VectorObservation(kInputs),
                                            *MakeSpec({Box("q", {kActions})}), 0);
  EXPECT_THAT(DqnPolicy::Create(std::move(network), DiscreteAction(kActions), options),
              IsInvalid("target update"));
}

TEST(Dqn, RefusesARecurrentNetworkAndNamesThePolicyForIt) {
  auto network = std::make_unique<LeakyNetwork>(
      VectorObservation(kInputs), *MakeSpec({Box("q", {kActions})}), /*state_size=*/2, 0);
  EXPECT_THAT(DqnPolicy::Create(std::move(network), DiscreteAction(kActions), {}),
              IsInvalid("leaky 3-2-4", "policy type 'r2d2'"));
}

}  // namespace
}  // namespace ding
