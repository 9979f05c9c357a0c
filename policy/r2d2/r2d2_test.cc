#include "ding_worker/policy/r2d2/r2d2.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/gradient_check.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/policy/r2d2/r2d2.pb.h"
#include "ding_worker/policy/schedule.h"
#include "ding_worker/policy/testing/allocation.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "ding_worker/policy/testing/test_networks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kInputs = 4;
constexpr int64_t kActions = 3;
constexpr int64_t kState = 3;

absl::StatusOr<std::unique_ptr<R2d2Policy>> CreateR2d2(
    const R2d2Options& options, const SpecPtr& observation = VectorObservation(kInputs)) {
  const FieldSpec& x = observation->field(observation->size() - 1);
  auto network = std::make_unique<LeakyNetwork>(*MakeSpec({x}), *MakeSpec({Box("q", {kActions})}),
                                                kState, options.dqn.seed);
  return R2d2Policy::Create(std::move(network), DiscreteAction(kActions), options, observation);
}

std::vector<float> Copy(absl::Span<const float> values) { return {values.begin(), values.end()}; }

// R2D2's loss of a batch by its definition, in float64, with the network written out. The bootstrap
// always takes one further step on next_obs, also where the sequence goes on.
class LossByHand {
 public:
  struct Result {
    double loss = 0;
    std::vector<double> priority;
  };

  LossByHand(const Batch& batch, const R2d2Options& options, absl::Span<const float> online,
             absl::Span<const float> target)
      : batch_(batch), options_(options), online_(Copy(online)), target_(Copy(target)) {
    masked_ = batch.spec().Find("obs/x").has_value();
    while (burn_in_ < length() && batch.column<uint8_t>(kColumnBurnIn)[burn_in_] != 0) ++burn_in_;
  }

  // Returns the loss if the online network had the parameters `moved` where it has a gradient: not
  // in burn-in, and not in the targets.
  Result Compute(absl::Span<const float> moved) const {
    Result result;
    int64_t learned = 0;
    for (int64_t b = 0; b < batch_.rows() / length(); ++b) {
      const std::vector<State> online = Unroll(b, online_, online_);
      const std::vector<State> target = Unroll(b, target_, target_);
      const std::vector<State> live = Unroll(b, online_, moved);
      std::vector<double> errors;
      for (int64_t t = burn_in_; t < length() && IsValid(b, t); ++t) {
        const int64_t row = b * length() + t;
        const double q = Q(moved, live[t], batch_.column<int64_t>("action")[row]);
        const double td = q - Target(b, t, online, target);
        result.loss += Weight(row) * td * td;
        errors.push_back(std::abs(td));
      }
      learned += static_cast<int64_t>(errors.size());
      double max = 0;
      double mean = 0;
      for (const double error : errors) {
        max = std::max(max, error);
        mean += error / static_cast<double>(errors.size());
      }
      result.priority.push_back(options_.priority_eta * max + (1 - options_.priority_eta) * mean);
    }
    result.loss /= static_cast<double>(learned);
    return result;
  }

 private:
  using State = std::vector<double>;

  int64_t length() const { return batch_.sequence_length(); }
  bool Flag(const char* name, int64_t row, bool otherwise) const {
    if (!batch_.spec().Find(name).has_value()) return otherwise;
    return batch_.column<uint8_t>(name)[row] != 0;
  }
  bool IsValid(int64_t b, int64_t t) const { return Flag(kColumnMask, b * length() + t, true); }
  double Weight(int64_t row) const {
    return batch_.spec().Find(kColumnWeight).has_value() ? batch_.column<float>(kColumnWeight)[row]
                                                         : 1.0;
  }

  State Step(absl::Span<const float> p, State state, absl::string_view prefix, int64_t row) const {
    const absl::Span<const float> x =
        batch_.column<float>(std::string(prefix) + (masked_ ? "obs/x" : "obs"));
    for (int64_t s = 0; s < kState; ++s) {
      state[s] *= LeakyNetwork::kLeak;
      for (int64_t n = 0; n < kInputs; ++n) {
        state[s] += double{p[s * kInputs + n]} * x[row * kInputs + n];
      }
    }
    return state;
  }

  double Q(absl::Span<const float> p, const State& state, int64_t action) const {
    double sum = p[kState * (kInputs + kActions) + action];
    for (int64_t s = 0; s < kState; ++s) {
      sum += double{p[kState * kInputs + action * kState + s]} * state[s];
    }
    return sum;
  }

  // Returns the states after the rows of sequence `b`.
  std::vector<State> Unroll(int64_t b, absl::Span<const float> in_burn_in,
                            absl::Span<const float> after) const {
    const int64_t begin = b * length();
    const absl::Span<const float> stored = batch_.column<float>(kColumnRnnState);
    State state(stored.begin() + begin * kState, stored.begin() + (begin + 1) * kState);
    std::vector<State> states;
    for (int64_t t = 0; t < length(); ++t) {
      if (Flag(kColumnIsFirst, begin + t, false)) state.assign(kState, 0);
      state = Step(t < burn_in_ ? in_burn_in : after, state, "", begin + t);
      states.push_back(state);
    }
    return states;
  }

  double Target(int64_t b, int64_t t, const std::vector<State>& online,
                const std::vector<State>& target) const {
    double sum = 0;
    double discount = 1;
    int64_t last = t;
    for (int64_t k = t; k < std::min(t + options_.nstep, length()); ++k) {
      const int64_t row = b * length() + k;
      if (k > t && (!IsValid(b, k) || Flag(kColumnIsFirst, row, false))) break;
      sum += discount * batch_.column<float>(kColumnReward)[row];
      discount *= batch_.column<float>(kColumnDiscount)[row];
      last = k;
      if (discount == 0) break;
    }
    const int64_t row = b * length() + last;
    const State by_online = Step(online_, online[last], "next_", row);
    const State by_target = Step(target_, target[last], "next_", row);
    int64_t best = -1;
    for (int64_t a = 0; a < kActions; ++a) {
      if (masked_ && batch_.column<uint8_t>("next_obs/action_mask")[row * kActions + a] == 0) {
        continue;
      }
      const auto choose = [&](int64_t action) {
        return options_.dqn.double_q ? Q(online_, by_online, action)
                                     : Q(target_, by_target, action);
      };
      if (best < 0 || choose(a) > choose(best)) best = a;
    }
    const double value = discount == 0 ? 0 : Q(target_, by_target, best);
    return options_.scale.Rescale(sum + discount * options_.scale.Invert(value));
  }

  const Batch& batch_;
  const R2d2Options options_;
  const std::vector<float> online_;
  const std::vector<float> target_;
  bool masked_ = false;
  int64_t burn_in_ = 0;
};

struct LossCase {
  std::string name;
  int64_t nstep;
  int64_t burn_in;
  bool double_q;
  bool rescale;
  bool padding;
  bool cross_episodes;
  bool action_mask;
};

std::ostream& operator<<(std::ostream& out, const LossCase& c) { return out << c.name; }

class R2d2Loss : public testing::TestWithParam<LossCase> {
 protected:
  Batch MakeBatch(uint64_t seed) const {
    RandomSequencesOptions options;
    options.sequences = 5;
    options.length = 6;
    options.burn_in = GetParam().burn_in;
    options.padding = GetParam().padding;
    options.cross_episodes = GetParam().cross_episodes;
    return MakeRandomSequences(observation(), DiscreteAction(kActions), seed, options);
  }
  SpecPtr observation() const {
    return GetParam().action_mask ? MaskedObservation(kActions, kInputs)
                                  : VectorObservation(kInputs);
  }
};

TEST_P(R2d2Loss, LossGradientAndPrioritiesEqualTheDefinition) {
  const LossCase& c = GetParam();
  R2d2Options options;
  options.dqn.seed = 3;
  options.dqn.double_q = c.double_q;
  options.dqn.learn.priority = true;
  options.dqn.adam.lr = 0.02;
  options.nstep = c.nstep;
  options.scale.eps = c.rescale ? std::optional<double>(1e-2) : std::nullopt;
  options.priority_eta = 0.75;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateR2d2(options, observation()));
  const std::vector<float> target = Copy(policy->network().parameters());
  std::vector<LearnStep> steps;
  // Train first, so that the network differs from the target network.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ASSERT_THAT(policy->learn_mode()->Forward(MakeBatch(seed), {}, &steps), IsOk());
  }
  const Batch batch = MakeBatch(77);
  const std::vector<float> before = Copy(policy->network().parameters());
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());

  const LossByHand by_hand(batch, options, before, target);
  const LossByHand::Result expected = by_hand.Compute(before);
  EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), expected.loss, 1e-5);
  ASSERT_EQ(steps[0].priority.size(), expected.priority.size());
  for (size_t b = 0; b < expected.priority.size(); ++b) {
    EXPECT_NEAR(steps[0].priority[b], expected.priority[b], 1e-5) << "sequence " << b;
  }
  const absl::Span<const float> gradients = policy->network().gradients();
  std::vector<float> moved = before;
  ExpectGradientsOf([&] { return by_hand.Compute(moved).loss; }, absl::MakeSpan(moved), gradients,
                    1.0f / 1024, 3e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, R2d2Loss,
    testing::Values(LossCase{"OneStep", 1, 0, true, true, true, true, false},
                    LossCase{"ThreeSteps", 3, 0, true, true, true, true, false},
                    LossCase{"WholeSequence", 100, 0, true, true, true, false, false},
                    LossCase{"BurnIn", 3, 2, true, true, true, true, false},
                    LossCase{"PlainQ", 3, 2, false, true, true, true, false},
                    LossCase{"NoRescaling", 3, 2, true, false, true, true, false},
                    LossCase{"NoOptionalColumns", 2, 1, true, true, false, false, false},
                    LossCase{"ActionMask", 3, 1, true, true, true, true, true}),
    [](const auto& info) { return info.param.name; });

TEST(R2d2, AValueAfterATruncatedEpisodeIsThatOfItsFinalObservation) {
  R2d2Options options;
  options.nstep = 1;
  const Batch batch =
      MakeRandomSequences(VectorObservation(kInputs), DiscreteAction(kActions), 1, {1, 4, kState});
  // Row 1 is the last one of an episode and row 2 begins another one; only next_obs of row 1 says
  // what followed.
  const auto loss_with = [&](float next_obs, float discount) {
    BatchBuilder builder = *BatchBuilder::Create(batch.spec_ptr(), 4);
    CopyRows(batch.view(), builder.view(), 0);
    const auto column = [&](const char* name) { return *batch.spec().Find(name); };
    builder.column<float>(column("next_obs"))[1 * kInputs] = next_obs;
    builder.column<float>(column(kColumnDiscount))[1] = discount;
    for (int64_t row = 0; row < 4; ++row) {
      builder.column<uint8_t>(column(kColumnMask))[row] = 1;
      builder.column<uint8_t>(column(kColumnIsFirst))[row] = row == 2 ? 1 : 0;
    }
    const auto policy = *CreateR2d2(options);
    std::vector<LearnStep> steps;
    EXPECT_THAT(
        policy->learn_mode()->Forward(std::move(builder).Seal(4).AsSequences(4), {}, &steps),
        IsOk());
    return *steps[0].scalars.Get("total_loss");
  };
  EXPECT_NE(loss_with(0.0f, 0.9f), loss_with(2.0f, 0.9f));
  EXPECT_EQ(loss_with(0.0f, 0.0f), loss_with(2.0f, 0.0f));
}

// Returns `batch` with each row of the column `name` replaced by `value(row)`.
template <typename T, typename Value>
Batch WithColumn(const Batch& batch, const char* name, Value value) {
  BatchBuilder builder = *BatchBuilder::Create(batch.spec_ptr(), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  const absl::Span<T> column = builder.column<T>(*batch.spec().Find(name));
  for (size_t row = 0; row < column.size(); ++row) {
    column[row] = static_cast<T>(value(static_cast<int64_t>(row)));
  }
  return std::move(builder).Seal(batch.rows()).AsSequences(batch.sequence_length());
}

Batch FourSequences(uint64_t seed, int64_t burn_in = 1) {
  RandomSequencesOptions options;
  options.burn_in = burn_in;
  return MakeRandomSequences(VectorObservation(kInputs), DiscreteAction(kActions), seed, options);
}

TEST(R2d2, RefusesBatchesThatAreNoSequencesOfItsOwnRowsAndSaysWhatToUse) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateR2d2({}));
  std::vector<LearnStep> steps;
  const auto learn = [&](const Batch& batch) {
    return policy->learn_mode()->Forward(batch, {}, &steps);
  };
  const auto refused = [](auto message) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("r2d2, train iteration 1"), message));
  };
  const Batch good = FourSequences(1);
  EXPECT_THAT(learn(good.AsSequences(1)),
              refused(AllOf(HasSubstr("single rows"), HasSubstr("replay buffer 'sequence'"))));
  EXPECT_THAT(learn(MakeTransitionBatch(VectorObservation(kInputs), DiscreteAction(kActions), 8, 1)
                        .AsSequences(4)),
              refused(AllOf(HasSubstr("'rnn_state' is missing"), HasSubstr("'sequence'"))));
  EXPECT_THAT(learn(WithColumn<uint8_t>(good, kColumnBurnIn, [](int64_t row) { return row == 0; })),
              refused(AllOf(HasSubstr("row 0 of sequence 1"), HasSubstr("sequence 0 has 1"))));
  EXPECT_THAT(learn(WithColumn<uint8_t>(good, kColumnBurnIn, [](int64_t) { return true; })),
              refused(HasSubstr("all 4 rows of a sequence are burn-in")));
  EXPECT_THAT(learn(WithColumn<int32_t>(good, kColumnNStep, [](int64_t row) { return 1 + row; })),
              refused(AllOf(HasSubstr("row 1 is a window of 2 steps"), HasSubstr("nstep 1"))));
  EXPECT_THAT(
      learn(WithColumn<uint8_t>(good, kColumnMask, [](int64_t row) { return row % 4 == 0; })),
      refused(HasSubstr("nothing to learn from")));
  EXPECT_THAT(learn(good), IsOk());
}

TEST(R2d2, ANonFiniteLossNamesTheRowAndChangesNothing) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateR2d2({}));
  const absl::Span<float> live = policy->network().parameters();
  std::fill(live.begin(), live.end(), std::numeric_limits<float>::infinity());
  const std::vector<float> parameters = Copy(live);
  std::vector<LearnStep> steps;
  EXPECT_THAT(policy->learn_mode()->Forward(FourSequences(1), {}, &steps),
              IsInternal("r2d2, train iteration 1: the loss is", "td error is that of row 1"));
  EXPECT_EQ(Copy(policy->network().parameters()), parameters);
}

TEST(R2d2, RefusesANetworkWithoutMemoryAndSaysWhichToUse) {
  auto network = std::make_unique<LinearNetwork>(VectorObservation(kInputs),
                                                 *MakeSpec({Box("q", {kActions})}), 0);
  EXPECT_THAT(R2d2Policy::Create(std::move(network), DiscreteAction(kActions), {}),
              IsInvalid("linear 4-3", "model.type", "'rnn'"));
}

TEST(R2d2, RefusesEnvIdsThatDoNotFitTheObservations) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateR2d2({}));
  const Batch obs = MakeObservationBatch(VectorObservation(kInputs), 2, 1);
  const BatchBuilder out = *BatchBuilder::Create(DiscreteAction(kActions), 2);
  EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), {0}, {}, out.view()),
              IsInvalid("1 env ids for 2"));
  EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), {0, -1}, {}, out.view()),
              IsInvalid("env id is -1"));
}

absl::StatusOr<std::unique_ptr<Network>> CreateLeaky(const NetworkConfig& /*config*/,
                                                     const SpecPtr& input, const SpecPtr& output,
                                                     uint64_t seed) {
  return std::make_unique<LeakyNetwork>(input, output, /*state_size=*/3, seed);
}

absl::StatusOr<std::unique_ptr<Network>> CreateLinear(const NetworkConfig& /*config*/,
                                                      const SpecPtr& input, const SpecPtr& output,
                                                      uint64_t seed) {
  return std::make_unique<LinearNetwork>(input, output, seed);
}

class R2d2Factory : public testing::Test {
 protected:
  R2d2Factory() {
    config_.set_type("r2d2");
    config_.set_unroll_len(4);
    params_.mutable_dqn()->mutable_model()->set_type("leaky");
    context_.observation = *MakeSpec({Box("obs", {4})});
    context_.action = *MakeSpec({Discrete("action", 2)});
  }
  absl::StatusOr<std::unique_ptr<Policy>> Create() {
    config_.mutable_params()->PackFrom(params_);
    return create_policy(config_, context_);
  }
  // Returns the loss of one batch, and the priority of its first sequence.
  std::pair<double, float> Learn() {
    config_.set_priority(true);
    const auto policy = Create();
    EXPECT_THAT(policy.status(), IsOk());
    std::vector<LearnStep> steps;
    RandomSequencesOptions options;
    options.padding = false;
    const Batch batch = MakeRandomSequences(context_.observation, context_.action, 1, options);
    EXPECT_THAT((*policy)->learn_mode()->Forward(batch, {}, &steps), IsOk());
    return {*steps[0].scalars.Get("total_loss"), steps[0].priority[0]};
  }

  PolicyConfig config_;
  R2d2Config params_;
  PolicyContext context_;

 private:
  ScopedRegistration<NetworkCreator> leaky_{&NetworkRegistry(), "leaky", CreateLeaky};
  ScopedRegistration<NetworkCreator> linear_{&NetworkRegistry(), "linear", CreateLinear};
};

TEST_F(R2d2Factory, AppliesTheFieldsThatItSharesWithDqnAndTheRun) {
  config_.set_batch_size(32);
  config_.set_n_sample(8);
  params_.mutable_dqn()->mutable_eps()->set_type(ScheduleConfig::LINEAR);
  params_.mutable_dqn()->mutable_eps()->set_decay(10);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->learn_mode()->attributes().batch_size, 32);
  EXPECT_TRUE(policy->learn_mode()->attributes().sequences);
  EXPECT_EQ(policy->collect_mode()->attributes().n_sample, 8);
  EXPECT_EQ(policy->collect_mode()->attributes().unroll_len, 4);
  EXPECT_DOUBLE_EQ(*policy->command_mode()->GetSettingCollect({{"envstep", 10}}).Get("eps"), 0.1);
  EXPECT_EQ(policy->learn_mode()->info(), "double r2d2 on leaky 4-3-2: 20 parameters");
}

TEST_F(R2d2Factory, EachFieldOfItsOwnHasAnEffect) {
  const auto [loss, priority] = Learn();
  params_.set_nstep(1);
  EXPECT_NE(Learn().first, loss);
  params_.clear_nstep();
  params_.set_value_rescale(false);
  EXPECT_NE(Learn().first, loss);
  params_.clear_value_rescale();
  params_.set_rescale_eps(0.5);
  EXPECT_NE(Learn().first, loss);
  params_.clear_rescale_eps();
  params_.set_priority_eta(0);
  EXPECT_EQ(Learn().first, loss);
  EXPECT_LT(Learn().second, priority);
}

TEST_F(R2d2Factory, ReportsAllProblemsAtOnce) {
  config_.set_unroll_len(1);
  config_.set_nstep(3);
  context_.action = *MakeSpec({Box("action", {1}, {-1}, {1})});
  EXPECT_THAT(Create(),
              IsInvalid("policy type 'r2d2': ", "nstep is 3, must be 1", "set params.nstep",
                        "unroll_len is 1", "at least 2", "r2d2 chooses among discrete actions"));
}

TEST_F(R2d2Factory, WholeEpisodesNeedNoUnrollLen) {
  config_.set_unroll_len(1);
  EXPECT_THAT(Create(), IsInvalid("n_episode"));
  config_.set_n_episode(2);
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, Create());
  EXPECT_EQ(policy->collect_mode()->attributes().n_episode, 2);
}

TEST_F(R2d2Factory, RefusesANetworkWithoutMemoryAndSaysWhichToUse) {
  params_.mutable_dqn()->mutable_model()->set_type("linear");
  EXPECT_THAT(Create(), IsInvalid("r2d2 needs a recurrent network", "set model.type to 'rnn'"));
}

TEST(R2d2Allocation, AllocatesNothingWhileSizesRepeat) {
  const SpecPtr observation = MaskedObservation(3);
  const SpecPtr action = DiscreteAction();
  R2d2Options options;
  options.dqn.learn.priority = true;
  options.dqn.grad_clip_norm = 1;
  auto network = std::make_unique<LeakyNetwork>(
      *MakeSpec({observation->field(1)}), *MakeSpec({Box("q", {3})}), /*state_size=*/3, /*seed=*/0);
  const auto policy = *R2d2Policy::Create(std::move(network), action, options, observation);
  ExpectAllocatesNothingWhileSizesRepeat(policy.get(), MakeRandomSequences(observation, action, 1),
                                         MakeObservationBatch(observation, 3, 1));
}

}  // namespace
}  // namespace ding
