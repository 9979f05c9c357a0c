// Tests of PPO and A2C on networks with memory, in the spaces and with the networks of
// RecurrentCases().
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/sequence_samples.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/policy/action_distribution.h"
#include "ding_worker/policy/actor_critic/actor_critic.h"
#include "ding_worker/policy/actor_critic/actor_critic_options.h"
#include "ding_worker/policy/actor_critic/actor_critic_policy.h"
#include "ding_worker/policy/actor_critic/testing/recurrent_run.h"
#include "ding_worker/policy/gradient_learn_mode.h"
#include "ding_worker/policy/loss/actor_critic_loss.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/policy/policy_conformance.h"
#include "ding_worker/policy/testing/random_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr int64_t kUnrollLen = 4;
constexpr int64_t kSteps = 11;  // of a collect

absl::Span<const float> Column(const Batch& batch, const char* name) {
  return batch.column<float>(name);
}

std::vector<float> Gradients(ActorCriticPolicy* policy) {
  std::vector<float> all;
  for (const ParameterGroup& group : policy->actor_critic().Groups()) {
    all.insert(all.end(), group.gradients.begin(), group.gradients.end());
  }
  return all;
}

// Moves all parameters a little, so that the policy is not the one that acted.
void Disturb(ActorCriticPolicy* policy) {
  Rng rng(1, "disturb");
  for (const ParameterGroup& group : policy->actor_critic().Groups()) {
    for (float& value : group.parameters) value += static_cast<float>(rng.Uniform(-0.1, 0.1));
  }
}

void ExpectSameBytes(const Batch& a, const Batch& b) {
  ASSERT_EQ(a.spec(), b.spec());
  for (int i = 0; i < a.spec().size(); ++i) {
    EXPECT_EQ(a.tensor(i).bytes(), b.tensor(i).bytes()) << a.spec().field(i).name;
  }
}

class RecurrentActorCritic : public testing::TestWithParam<RecurrentCase> {
 protected:
  std::unique_ptr<ActorCriticPolicy> Create(int64_t unroll_len = kUnrollLen) const {
    return Create(RecurrentOptions(unroll_len));
  }
  std::unique_ptr<ActorCriticPolicy> Create(const ActorCriticPolicyOptions& options) const {
    auto policy = CreateRecurrent(GetParam(), options);
    EXPECT_THAT(policy, IsOk());
    return *std::move(policy);
  }
  // Training data of the second collect, which begins in the middle of episodes.
  SegmentBatch TrainSamples(ActorCriticPolicy* policy) const {
    RecurrentRun run(GetParam(), 3);
    run.Collect(policy->collect_mode(), 5);
    auto data = policy->collect_mode()->GetTrainSample(run.Collect(policy->collect_mode(), kSteps));
    EXPECT_THAT(data, IsOk());
    return *std::move(data);
  }
};

TEST_P(RecurrentActorCritic, StoresTheStateBeforeEachRow) {
  const auto policy = Create();
  ActorCritic& networks = policy->actor_critic();
  const auto size = static_cast<size_t>(networks.state_size());
  EXPECT_EQ(size, GetParam().memory == Memory::kBoth ? 6u : 3u);
  RecurrentRun run(GetParam(), 3);
  for (int round = 0; round < 3; ++round) {
    const SegmentBatch data = run.Collect(policy->collect_mode(), kSteps);
    const absl::Span<const float> stored = Column(data.rows, kColumnRnnState);
    for (const Segment& segment : data.segments) {
      auto row = static_cast<size_t>(segment.begin);
      const absl::Span<const float> first = stored.subspan(row * size, size);
      std::vector<float> state(first.begin(), first.end());
      // A segment that does not begin with the collect begins with an episode.
      const bool begins = round == 0 ? segment.first_step == 0 : false;
      if (begins || segment.first_step % kSteps != 0) {
        EXPECT_EQ(state, std::vector<float>(size));
      }
      for (int64_t i = 0; i < segment.length; ++i, ++row) {
        EXPECT_EQ(absl::MakeConstSpan(state), stored.subspan(row * size, size));
        float value = 0;
        ASSERT_THAT(networks.Act(data.rows.Slice(static_cast<int64_t>(row), 1).view(),
                                 absl::MakeSpan(&value, 1), absl::MakeSpan(state)),
                    IsOk());
        EXPECT_EQ(value, Column(data.rows, kColumnValue)[row]);
        EXPECT_EQ(networks.head(), data.rows.Slice(static_cast<int64_t>(row), 1)
                                       .column<float>(networks.distribution().head().name));
      }
    }
  }
}

// Advantages from states that are computed along the whole segment.
TEST_P(RecurrentActorCritic, BootstrapsFromTheStateAfterTheSegment) {
  const auto policy = Create(100);  // A sample for each segment.
  ActorCritic& networks = policy->actor_critic();
  RecurrentRun run(GetParam(), 3);
  run.Collect(policy->collect_mode(), 5);
  const SegmentBatch data = run.Collect(policy->collect_mode(), kSteps);
  DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch samples,
                            policy->collect_mode()->GetTrainSample(data));
  ASSERT_EQ(samples.segments.size(), data.segments.size());
  const auto size = static_cast<size_t>(networks.state_size());
  for (size_t s = 0; s < data.segments.size(); ++s) {
    const Segment& segment = data.segments[s];
    const auto begin = static_cast<size_t>(segment.begin);
    const auto length = static_cast<size_t>(segment.length);
    const absl::Span<const float> first =
        Column(data.rows, kColumnRnnState).subspan(begin * size, size);
    std::vector<float> state(first.begin(), first.end());
    float value = 0;
    for (int64_t row = segment.begin; row < segment.begin + segment.length; ++row) {
      ASSERT_THAT(networks.Act(data.rows.Slice(row, 1).view(), absl::MakeSpan(&value, 1),
                               absl::MakeSpan(state)),
                  IsOk());
    }
    ASSERT_THAT(networks.Values(data.final_obs.Slice(static_cast<int64_t>(s), 1).view(),
                                absl::MakeSpan(&value, 1), absl::MakeSpan(state)),
                IsOk());
    std::vector<float> adv(length);
    ComputeGae({Column(data.rows, kColumnReward).subspan(begin, length),
                Column(data.rows, kColumnValue).subspan(begin, length), value, segment.end},
               0.9, 0.8, absl::MakeSpan(adv));
    EXPECT_EQ(Column(samples.rows, kColumnAdvantage).subspan(100 * s, length),
              absl::MakeConstSpan(adv));
  }
}

TEST_P(RecurrentActorCritic, TheFirstMinibatchHasTheRatioOne) {
  for (const LastSample last : {LastSample::kNullPadding, LastSample::kLast, LastSample::kDrop}) {
    ActorCriticPolicyOptions options = RecurrentOptions(kUnrollLen);
    options.last_sample = last;
    options.update.minibatch_size = 3;
    options.update.loss_options.ratio_clip = 1e-30;
    const auto policy = Create(options);
    const SegmentBatch data = TrainSamples(policy.get());
    EXPECT_TRUE(policy->learn_mode()->attributes().sequences);
    std::vector<LearnStep> steps;
    ASSERT_THAT(policy->learn_mode()->Forward(data.rows, {}, &steps), IsOk());
    const int64_t samples = data.size() / kUnrollLen;
    EXPECT_EQ(static_cast<int64_t>(steps.size()), (samples + 2) / 3) << "minibatches of 3 samples";
    EXPECT_EQ(*steps[0].scalars.Get("approx_kl"), 0);
    EXPECT_EQ(*steps[0].scalars.Get("clip_fraction"), 0) << "a ratio is not exactly 1";
  }
}

// The loss of all samples by the definitions, one row at a time, as a function of all parameters.
TEST_P(RecurrentActorCritic, TheGradientAgreesWithFiniteDifferencesThroughTime) {
  for (const bool ppo : {true, false}) {
    ActorCriticPolicyOptions options = RecurrentOptions(kUnrollLen);
    options.update.loss = ppo ? ComputePpoLoss : ComputeA2cLoss;
    options.adam.lr = 0;
    const auto policy = Create(options);
    ActorCritic& networks = policy->actor_critic();
    const Batch batch = TrainSamples(policy.get()).rows;
    Disturb(policy.get());
    const absl::Span<const uint8_t> mask = batch.column<uint8_t>(kColumnMask);
    EXPECT_GT(std::count(mask.begin(), mask.end(), 0), 0) << "there is no padding";
    const absl::Span<const float> adv = Column(batch, kColumnAdvantage);
    double rows = 0, mean = 0, variance = 0;
    for (size_t i = 0; i < mask.size(); ++i) rows += mask[i];
    for (size_t i = 0; i < mask.size(); ++i) mean += mask[i] * adv[i] / rows;
    for (size_t i = 0; i < mask.size(); ++i)
      variance += mask[i] * std::pow(adv[i] - mean, 2) / rows;
    const int taken = *batch.spec().Find(networks.distribution().taken_field().name);
    const auto size = static_cast<size_t>(networks.state_size());
    std::vector<bool> clipped(mask.size());  // of the last loss()
    const auto loss = [&] {
      double sum = 0;
      std::vector<float> state;
      for (size_t i = 0; i < mask.size(); ++i) {
        if (i % kUnrollLen == 0) {
          const auto first = Column(batch, kColumnRnnState).subspan(i * size, size);
          state.assign(first.begin(), first.end());
        }
        if (mask[i] == 0) continue;
        const Batch row = batch.Slice(static_cast<int64_t>(i), 1);
        float value = 0, log_prob = 0, entropy = 0;
        EXPECT_THAT(networks.Act(row.view(), absl::MakeSpan(&value, 1), absl::MakeSpan(state)),
                    IsOk());
        networks.distribution().LogProb(row.view(), taken, absl::MakeSpan(&log_prob, 1));
        networks.distribution().Entropy(absl::MakeSpan(&entropy, 1));
        const double a = (adv[i] - mean) / std::sqrt(variance);
        const double ratio = std::exp(log_prob - Column(batch, kColumnLogProb)[i]);
        clipped[i] = ppo && std::abs(ratio - 1) > 0.2;
        sum -= ppo ? std::min(ratio * a, std::max(0.8, std::min(1.2, ratio)) * a) : log_prob * a;
        sum += 0.25 * std::pow(value - Column(batch, kColumnReturn)[i], 2) - 0.05 * entropy;
      }
      return sum / rows;
    };
    const double expected = loss();
    std::vector<LearnStep> steps;
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
    EXPECT_NEAR(*steps[0].scalars.Get("total_loss"), expected, 1e-5);
    size_t parameters = 0, kinks = 0;
    for (const ParameterGroup& group : networks.Groups()) {
      const std::vector<float> gradient(group.gradients.begin(), group.gradients.end());
      parameters += gradient.size();
      for (size_t i = 0; i < gradient.size(); ++i) {
        constexpr float kStep = 1.0f / 512;
        const float before = group.parameters[i];
        group.parameters[i] = before + kStep;
        const double above = loss();
        const std::vector<bool> clipped_above = clipped;
        group.parameters[i] = before - kStep;
        const double below = loss();
        group.parameters[i] = before;
        // Where a ratio passes a bound of the clipping, the loss has a kink, and so no such
        // derivative.
        if (clipped != clipped_above) {
          ++kinks;
          continue;
        }
        EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 2e-3) << group.name << " " << i;
      }
    }
    EXPECT_LT(kinks, parameters / 4);
  }
}

// Samples of 4 rows, of which some are padded, and the same rows in samples of 9 with more padding,
// whose content is replaced.
TEST_P(RecurrentActorCritic, PaddingDoesNotChangeTheUpdate) {
  const auto less = Create(4);
  const auto more = Create(9);
  const Batch batch = TrainSamples(less.get()).rows;
  const int64_t samples = batch.rows() / 4;
  BatchBuilder padded = *BatchBuilder::Create(batch.spec_ptr(), samples * 9);
  const Batch other = MakeRecurrentBatch(GetParam(), 9, samples * 9, 77);
  std::vector<int64_t> source;
  for (int64_t i = 0; i < samples * 9; ++i)
    source.push_back(i / 9 * 4 + std::min<int64_t>(i % 9, 3));
  GatherRows(batch.view(), source, padded.view(), 0);
  const int mask = *batch.spec().Find(kColumnMask);
  for (int64_t i = 0; i < samples * 9; ++i) {
    uint8_t& real = padded.column<uint8_t>(mask)[static_cast<size_t>(i)];
    if (i % 9 >= 4) real = 0;
    if (real != 0) continue;
    for (int field = 0; field < batch.spec().size(); ++field) {
      const std::string& name = batch.spec().field(field).name;
      const auto found = other.spec().Find(name);
      if (field == mask || !found.has_value()) continue;
      const auto bytes = batch.spec().row_bytes(field);
      std::copy_n(other.view().raw_column(*found) + i * bytes, bytes,
                  padded.view().raw_column(field) + i * bytes);
    }
  }
  const Batch longer = std::move(padded).Seal(samples * 9).AsSequences(9);
  Disturb(less.get());
  Disturb(more.get());
  std::vector<LearnStep> a, b;
  ASSERT_THAT(less->learn_mode()->Forward(batch, {}, &a), IsOk());
  ASSERT_THAT(more->learn_mode()->Forward(longer, {}, &b), IsOk());
  for (const std::string& name : less->learn_mode()->monitor_vars()) {
    EXPECT_NEAR(*a[0].scalars.Get(name), *b[0].scalars.Get(name), 1e-6) << name;
  }
  // Not the parameters: Adam makes steps of rounding errors where a gradient is 0.
  const std::vector<float> gradient = Gradients(less.get()), other_gradient = Gradients(more.get());
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_NEAR(gradient[i], other_gradient[i], 1e-6) << i;
  }
}

TEST_P(RecurrentActorCritic, CollectContinuesInTheMiddleOfEpisodes) {
  for (const bool with_states : {true, false}) {
    const auto straight = Create();
    const auto resumed = Create();
    RecurrentRun run(GetParam(), 3);
    run.Collect(straight->collect_mode(), 6);
    RecurrentRun again = run;
    StateDict state;
    ASSERT_THAT(straight->collect_mode()->SaveState(&state), IsOk());
    EXPECT_THAT(state.Names(), testing::ElementsAre("rng", "rnn_states/size", "rnn_states/states"));
    ASSERT_THAT(resumed->collect_mode()->LoadState(&state), IsOk());
    if (!with_states) {
      ASSERT_THAT(resumed->collect_mode()->Reset({}), IsOk());
    }
    const SegmentBatch a = run.Collect(straight->collect_mode(), kSteps);
    const SegmentBatch b = again.Collect(resumed->collect_mode(), kSteps);
    if (!with_states) {
      EXPECT_NE(Column(a.rows, kColumnRnnState), Column(b.rows, kColumnRnnState));
      continue;
    }
    ExpectSameBytes(a.rows, b.rows);
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch a_samples,
                              straight->collect_mode()->GetTrainSample(a));
    DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch b_samples,
                              resumed->collect_mode()->GetTrainSample(b));
    ExpectSameBytes(a_samples.rows, b_samples.rows);
  }
}

TEST_P(RecurrentActorCritic, EvaluationHasStatesOfItsOwn) {
  const auto policy = Create();
  const auto other = Create();
  const SpecPtr actions = policy->eval_mode()->output_spec();
  RecurrentRun run(GetParam(), 3), same(GetParam(), 3);
  const std::vector<int> env_ids = {2, 0, 1};
  const auto evaluate = [&](uint64_t seed) {
    BatchBuilder out = *BatchBuilder::Create(actions, 3);
    EXPECT_THAT(
        policy->eval_mode()->Forward(MakeObservationBatch(GetParam().observation, 3, seed).view(),
                                     env_ids, {}, out.view()),
        IsOk());
    return std::move(out).Seal(3);
  };
  ExpectSameBytes(run.Collect(policy->collect_mode(), 3).rows,
                  same.Collect(other->collect_mode(), 3).rows);
  std::vector<Batch> first;
  for (uint64_t seed = 0; seed < 20; ++seed) first.push_back(evaluate(seed));
  ExpectSameBytes(run.Collect(policy->collect_mode(), 3).rows,
                  same.Collect(other->collect_mode(), 3).rows);
  ASSERT_THAT(policy->eval_mode()->Reset(env_ids), IsOk());
  for (uint64_t seed = 0; seed < 20; ++seed) ExpectSameBytes(evaluate(seed), first[seed]);
  if (GetParam().memory == Memory::kCritic) return;
  bool differs = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ASSERT_THAT(policy->eval_mode()->Reset({}), IsOk());
    const Batch out = evaluate(seed);
    differs |= out.tensor(0).bytes() != first[seed].tensor(0).bytes();
  }
  EXPECT_TRUE(differs) << "actions do not depend on the observations before";
}

INSTANTIATE_TEST_SUITE_P(Cases, RecurrentActorCritic, testing::ValuesIn(RecurrentCases()),
                         [](const auto& info) { return info.param.name; });

RecurrentCase Discrete() { return RecurrentCases().front(); }

RecurrentCase WithoutMemory() {
  return {"without_memory", VectorObservation(), DiscreteAction(), Memory::kNone};
}

TEST(UnrollLen, SamplesOfOneRowAreRefusedForRecurrentNetworks) {
  EXPECT_THAT(CreateRecurrent(Discrete(), RecurrentOptions(1)),
              IsInvalid("unroll_len is 1", "gru 3 in 4"));
}

// Without memory, samples are rows like any others.
TEST(UnrollLen, WithoutMemoryRowsAreLearnedAsRows) {
  for (const auto loss : {ComputePpoLoss, ComputeA2cLoss}) {
    ActorCriticPolicyOptions options = RecurrentOptions(5);
    options.update.loss = loss;
    DING_ASSERT_OK_AND_ASSIGN(const auto samples, CreateRecurrent(WithoutMemory(), options));
    options.collect.unroll_len = 1;
    DING_ASSERT_OK_AND_ASSIGN(const auto rows, CreateRecurrent(WithoutMemory(), options));
    RecurrentRun run(WithoutMemory(), 3), same(WithoutMemory(), 3);
    std::vector<LearnStep> a, b;
    for (int i = 0; i < 3; ++i) {
      const SegmentBatch collected = run.Collect(samples->collect_mode(), kSteps);
      EXPECT_FALSE(collected.rows.spec().Find(kColumnRnnState).has_value());
      DING_ASSERT_OK_AND_ASSIGN(const SegmentBatch cut,
                                samples->collect_mode()->GetTrainSample(collected));
      DING_ASSERT_OK_AND_ASSIGN(
          const SegmentBatch whole,
          rows->collect_mode()->GetTrainSample(same.Collect(rows->collect_mode(), kSteps)));
      EXPECT_GT(cut.size(), whole.size());
      ASSERT_THAT(samples->learn_mode()->Forward(cut.rows, {}, &a), IsOk());
      ASSERT_THAT(rows->learn_mode()->Forward(whole.rows, {}, &b), IsOk());
      for (const std::string& name : rows->learn_mode()->monitor_vars()) {
        EXPECT_NEAR(*a[0].scalars.Get(name), *b[0].scalars.Get(name), 1e-5) << name;
      }
      EXPECT_FALSE(rows->learn_mode()->attributes().sequences);
    }
  }
}

TEST(Samples, SamplesThatDoNotFitAreRefused) {
  ActorCriticPolicyOptions options = RecurrentOptions(4);
  options.last_sample = LastSample::kDrop;
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateRecurrent(Discrete(), options));
  LearnMode* const learn = policy->learn_mode();
  std::vector<LearnStep> steps;
  const Batch batch = MakeRecurrentBatch(Discrete(), 4, 16, 1);
  EXPECT_THAT(learn->Forward(batch, {}, &steps), IsOk());
  EXPECT_THAT(learn->Forward(batch.AsSequences(8), {}, &steps),
              IsInvalid("samples of 8 rows, expected unroll_len 4"));
  EXPECT_THAT(
      learn->Forward(MakeOnPolicyBatch(VectorObservation(), DiscreteAction(), 16, 1), {}, &steps),
      IsInvalid("'mask' is missing"));
  EXPECT_THAT(learn->Forward(batch.Slice(0, 0), {}, &steps),
              IsInvalid("last_sample DROP drops the others"));
  BatchBuilder padding = *BatchBuilder::Create(batch.spec_ptr(), 16);
  CopyRows(batch.view(), padding.view(), 0);
  padding.column<uint8_t>(*batch.spec().Find(kColumnMask))[8] = 0;
  EXPECT_THAT(learn->Forward(std::move(padding).Seal(16).AsSequences(4), {}, &steps),
              IsInvalid("sample 2 begins with padding"));
  BatchBuilder infinite = *BatchBuilder::Create(batch.spec_ptr(), 16);
  CopyRows(batch.view(), infinite.view(), 0);
  infinite.column<float>(*batch.spec().Find(kColumnRnnState))[7] =
      std::numeric_limits<float>::infinity();
  EXPECT_THAT(learn->Forward(std::move(infinite).Seal(16).AsSequences(4), {}, &steps),
              IsInternal("'rnn_state', row 2 holds inf"));
}

TEST(EnvIds, AreNeededToFindTheStates) {
  DING_ASSERT_OK_AND_ASSIGN(const auto policy, CreateRecurrent(Discrete(), RecurrentOptions(4)));
  const Batch obs = MakeObservationBatch(VectorObservation(), 2, 1);
  const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 2);
  const BatchBuilder actions = *BatchBuilder::Create(policy->eval_mode()->output_spec(), 2);
  for (const std::vector<int>& env_ids : {std::vector<int>{0}, std::vector<int>{0, -1}}) {
    EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), env_ids, {}, out.view()),
                IsInvalid("test, collect: "));
    EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), env_ids, {}, actions.view()),
                IsInvalid("test, eval: "));
  }
}

TEST(CollectState, TheStateOfOtherNetworksIsRefusedAndChangesNothing) {
  DING_ASSERT_OK_AND_ASSIGN(const auto shared, CreateRecurrent(Discrete(), RecurrentOptions(4)));
  DING_ASSERT_OK_AND_ASSIGN(const auto both,
                            CreateRecurrent(RecurrentCases()[1], RecurrentOptions(4)));
  StateDict state, before, after;
  ASSERT_THAT(shared->collect_mode()->SaveState(&state), IsOk());
  ASSERT_THAT(both->collect_mode()->SaveState(&before), IsOk());
  EXPECT_THAT(both->collect_mode()->LoadState(&state),
              IsInvalid("recurrent states of 3 floats, expected 6"));
  ASSERT_THAT(both->collect_mode()->SaveState(&after), IsOk());
  for (const auto& [name, tensor] : before.tensors()) {
    EXPECT_TRUE(BitwiseEqual(tensor, *after.tensors().Find(name))) << name;
  }
}

std::vector<PolicyConformanceCase> ConformanceCases() {
  std::vector<PolicyConformanceCase> cases;
  for (const RecurrentCase& c : RecurrentCases()) {
    cases.push_back(
        {c.name,
         [c](uint64_t seed, PolicyModes modes) -> absl::StatusOr<std::unique_ptr<Policy>> {
           ActorCriticPolicyOptions options = RecurrentOptions(4);
           options.seed = seed;
           options.modes = modes;
           options.update.epochs = 2;
           options.update.minibatch_size = 3;
           return CreateRecurrent(c, options);
         },
         c.observation, c.action, /*learns=*/true,
         [c](const SpecPtr&, const SpecPtr&, int64_t rows, uint64_t seed) {
           return MakeRecurrentBatch(c, 4, rows, seed);
         },
         kColumnAdvantage});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Recurrent, PolicyConformance, testing::ValuesIn(ConformanceCases()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace ding
