#include "ding_worker/policy/policy_conformance.h"

#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/data/extreme_numbers.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/state.h"
#include "ding_worker/data/tensor.h"
#include "gmock/gmock.h"

namespace ding {
namespace {

constexpr int64_t kRows = 16;

std::vector<int> EnvIds(int64_t rows) {
  std::vector<int> ids;
  for (int64_t i = 0; i < rows; ++i) ids.push_back(static_cast<int>(i));
  return ids;
}

// Returns the concatenated bytes of the columns of a batch.
std::string Bytes(const Batch& batch) {
  std::string bytes;
  for (int i = 0; i < batch.spec().size(); ++i) {
    absl::StrAppend(&bytes, batch.tensor(i).bytes());
  }
  return bytes;
}

NamedValues CollectSettings(Policy* policy) {
  return policy->command_mode()->GetSettingCollect({{"envstep", 0}, {"learner_step", 0}});
}

// Returns the outputs of the collect or eval mode for observations that depend on `seed`.
template <typename Mode>
Batch Act(Mode* mode, const SpecPtr& observation, const NamedValues& settings, uint64_t seed,
          int64_t rows = kRows) {
  const Batch obs = MakeObservationBatch(observation, rows, seed);
  BatchBuilder out = *BatchBuilder::Create(mode->output_spec(), rows);
  EXPECT_THAT(mode->Forward(obs.view(), EnvIds(rows), settings, out.view()), IsOk());
  return std::move(out).Seal(rows);
}

void ExpectLegal(const Batch& actions) {
  const FieldSpec& field = actions.spec().field(0);
  if (field.is_discrete()) {
    const absl::Span<const int64_t> values = actions.column<int64_t>(0);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_GE(values[i], 0);
      EXPECT_LT(values[i], field.CategoryCount(static_cast<int64_t>(i) % field.num_elements()));
    }
    return;
  }
  const absl::Span<const float> values = actions.column<float>(0);
  const auto bound = [&](const std::vector<double>& bounds, size_t i, double none) {
    if (bounds.empty()) return none;
    return bounds[bounds.size() == 1 ? 0 : i % bounds.size()];
  };
  constexpr double kMax = std::numeric_limits<double>::max();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_GE(values[i], bound(field.low, i, -kMax));
    EXPECT_LE(values[i], bound(field.high, i, kMax));
  }
}

StateDict SavedModel(Policy* policy) {
  StateDict state;
  EXPECT_THAT(policy->learn_mode()->SaveModel(&state), IsOk());
  return state;
}

// Returns model and train state.
StateDict SavedTraining(Policy* policy) {
  StateDict state;
  EXPECT_THAT(policy->learn_mode()->SaveModel(&state), IsOk());
  EXPECT_THAT(policy->learn_mode()->SaveTrainState(&state), IsOk());
  return state;
}

testing::AssertionResult SameState(const StateDict& a, const StateDict& b) {
  if (a.Names() != b.Names()) return testing::AssertionFailure() << "names differ";
  for (const auto& [name, tensor] : a.tensors()) {
    if (!BitwiseEqual(tensor, *b.tensors().Find(name))) {
      return testing::AssertionFailure() << "'" << name << "' differs";
    }
  }
  return testing::AssertionSuccess();
}

void Train(Policy* policy, const PolicyConformanceCase& c, uint64_t first_seed, int iterations) {
  std::vector<LearnStep> steps;
  for (int i = 0; i < iterations; ++i) {
    const Batch batch = c.make_batch(c.observation, c.action, kRows, first_seed + i);
    ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  }
}

// Returns `batch` with the first value of float column `name` replaced.
Batch WithFirstValue(const Batch& batch, absl::string_view name, float value) {
  BatchBuilder builder = *BatchBuilder::Create(batch.spec_ptr(), batch.rows());
  CopyRows(batch.view(), builder.view(), 0);
  builder.column<float>(*batch.spec().Find(name))[0] = value;
  return std::move(builder).Seal(batch.rows()).AsSequences(batch.sequence_length());
}

// Returns `batch` without column `name`.
Batch Without(const Batch& batch, absl::string_view name) {
  std::vector<FieldSpec> fields;
  std::vector<int> from;
  for (int i = 0; i < batch.spec().size(); ++i) {
    if (batch.spec().field(i).name == name) continue;
    fields.push_back(batch.spec().field(i));
    from.push_back(i);
  }
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(fields), batch.rows());
  for (size_t i = 0; i < from.size(); ++i) {
    const absl::string_view bytes = batch.tensor(from[i]).bytes();
    std::memcpy(builder.view().raw_column(static_cast<int>(i)), bytes.data(), bytes.size());
  }
  return std::move(builder).Seal(batch.rows()).AsSequences(batch.sequence_length());
}

// Returns `batch` with `field` in the place of the one with this index, and zeros in it.
Batch WithField(const Batch& batch, int index, FieldSpec field) {
  std::vector<FieldSpec> fields(batch.spec().fields().begin(), batch.spec().fields().end());
  fields[static_cast<size_t>(index)] = std::move(field);
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(std::move(fields)), batch.rows());
  for (int i = 0; i < batch.spec().size(); ++i) {
    const auto bytes = static_cast<size_t>(batch.rows() * builder.spec().row_bytes(i));
    if (i == index) {
      std::memset(builder.view().raw_column(i), 0, bytes);
    } else {
      std::memcpy(builder.view().raw_column(i), batch.view().raw_column(i), bytes);
    }
  }
  return std::move(builder).Seal(batch.rows()).AsSequences(batch.sequence_length());
}

// Returns the field as another type.
FieldSpec OfAnotherType(const FieldSpec& field) {
  FieldSpec other;
  other.name = field.name;
  other.shape = field.shape;
  other.dtype = field.dtype == DType::kFloat32 ? DType::kInt32 : DType::kFloat32;
  return other;
}

FieldSpec OfAnotherShape(FieldSpec field) {
  field.shape.push_back(3);
  field.low.clear();
  field.high.clear();
  field.frame_stack_axis = -1;
  return field;
}

}  // namespace

std::unique_ptr<Policy> PolicyConformance::Create(uint64_t seed) {
  auto policy = GetParam().create(seed, PolicyModes());
  DING_CHECK(policy.ok()) << policy.status();
  return *std::move(policy);
}

TEST_P(PolicyConformance, HasExactlyTheRequestedModes) {
  for (int bits = 0; bits < 16; ++bits) {
    const PolicyModes modes{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    DING_ASSERT_OK_AND_ASSIGN(const auto policy, GetParam().create(1, modes));
    EXPECT_EQ(policy->learn_mode() != nullptr, modes.learn && GetParam().learns) << bits;
    EXPECT_EQ(policy->collect_mode() != nullptr, modes.collect) << bits;
    EXPECT_EQ(policy->eval_mode() != nullptr, modes.eval) << bits;
    EXPECT_EQ(policy->command_mode() != nullptr, modes.command) << bits;
  }
}

TEST_P(PolicyConformance, TheFirstOutputIsTheActionOfTheEnv) {
  const auto policy = Create(1);
  for (const SpecPtr& spec :
       {policy->collect_mode()->output_spec(), policy->eval_mode()->output_spec()}) {
    ASSERT_GE(spec->size(), 1);
    EXPECT_EQ(spec->field(0).name, kColumnAction);
    EXPECT_EQ(spec->field(0).dtype, GetParam().action->field(0).dtype);
    EXPECT_EQ(spec->field(0).shape, GetParam().action->field(0).shape);
  }
}

TEST_P(PolicyConformance, ActionsAreLegal) {
  const auto policy = Create(1);
  const NamedValues settings = CollectSettings(policy.get());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ExpectLegal(Act(policy->collect_mode(), GetParam().observation, settings, seed));
    ExpectLegal(Act(policy->eval_mode(), GetParam().observation, {}, seed));
  }
}

TEST_P(PolicyConformance, AcceptsABatchWithoutRows) {
  const auto policy = Create(1);
  const Batch obs = MakeObservationBatch(GetParam().observation, 1, 1).Slice(0, 0);
  const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 1);
  EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), {}, CollectSettings(policy.get()),
                                              out.view().Slice(0, 0)),
              IsOk());
  const BatchBuilder eval_out = *BatchBuilder::Create(policy->eval_mode()->output_spec(), 1);
  EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), {}, {}, eval_out.view().Slice(0, 0)),
              IsOk());
}

TEST_P(PolicyConformance, WritesTheFirstRowsOfALongerOutputOnly) {
  const auto policy = Create(1);
  const Batch obs = MakeObservationBatch(GetParam().observation, 3, 1);
  const BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 5);
  const int64_t bytes = out.spec().row_bytes(0);
  std::memset(out.view().raw_column(0), 0x7e, static_cast<size_t>(5 * bytes));
  ASSERT_THAT(policy->collect_mode()->Forward(obs.view(), EnvIds(3), CollectSettings(policy.get()),
                                              out.view()),
              IsOk());
  const auto* const begin = reinterpret_cast<const char*>(out.view().raw_column(0));
  EXPECT_EQ(std::string(begin + 3 * bytes, static_cast<size_t>(2 * bytes)),
            std::string(static_cast<size_t>(2 * bytes), 0x7e));
}

TEST_P(PolicyConformance, RefusesAnOutputThatDoesNotFit) {
  const auto policy = Create(1);
  const Batch obs = MakeObservationBatch(GetParam().observation, 3, 1);
  const NamedValues settings = CollectSettings(policy.get());
  const BatchBuilder shorter = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 2);
  EXPECT_THAT(policy->collect_mode()->Forward(obs.view(), EnvIds(3), settings, shorter.view()),
              IsInvalid());
  const BatchBuilder other = *BatchBuilder::Create(*MakeSpec({Box("other", {7})}), 3);
  EXPECT_THAT(policy->eval_mode()->Forward(obs.view(), EnvIds(3), {}, other.view()), IsInvalid());
}

TEST_P(PolicyConformance, ActionsAreAFunctionOfTheSeed) {
  const auto first = Create(1);
  const auto again = Create(1);
  const auto other = Create(2);
  const NamedValues settings = CollectSettings(first.get());
  const SpecPtr& obs = GetParam().observation;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const std::string actions = Bytes(Act(first->collect_mode(), obs, settings, seed, 200));
    EXPECT_EQ(actions, Bytes(Act(again->collect_mode(), obs, settings, seed, 200)));
    EXPECT_NE(actions, Bytes(Act(other->collect_mode(), obs, settings, seed, 200)))
        << "seeds 1 and 2 explore alike";
  }
}

TEST_P(PolicyConformance, CollectContinuesFromItsSavedState) {
  const auto saved = Create(1);
  const auto loaded = Create(1);
  const NamedValues settings = CollectSettings(saved.get());
  const SpecPtr& obs = GetParam().observation;
  Act(saved->collect_mode(), obs, settings, 1, 33);
  StateDict state;
  ASSERT_THAT(saved->collect_mode()->SaveState(&state), IsOk());
  ASSERT_THAT(loaded->collect_mode()->LoadState(&state), IsOk());
  EXPECT_EQ(Bytes(Act(saved->collect_mode(), obs, settings, 2, 200)),
            Bytes(Act(loaded->collect_mode(), obs, settings, 2, 200)));
}

TEST_P(PolicyConformance, RefusesAModelWithAnUnknownTensor) {
  const auto policy = Create(1);
  StateDict state;
  if (GetParam().learns) {
    ASSERT_THAT(policy->learn_mode()->SaveModel(&state), IsOk());
  }
  ASSERT_THAT(policy->collect_mode()->LoadModel(&state), IsOk());
  ASSERT_THAT(policy->eval_mode()->LoadModel(&state), IsOk());
  ASSERT_THAT(state.WriteDouble("model/more", 1), IsOk());
  EXPECT_THAT(policy->collect_mode()->LoadModel(&state), IsInvalid("more"));
  EXPECT_THAT(policy->eval_mode()->LoadModel(&state), IsInvalid("more"));
}

// The tests below need a recurrent policy, which stores its state with each row; they pass at once
// for the others.

// Returns the column of recurrent states, or nothing if there is none.
std::vector<float> StoredStates(const Batch& outputs) {
  const std::optional<int> field = outputs.spec().Find(kColumnRnnState);
  if (!field.has_value()) return {};
  const absl::Span<const float> states = outputs.column<float>(*field);
  return {states.begin(), states.end()};
}

bool IsRecurrent(Policy* policy) {
  return policy->collect_mode()->output_spec()->Find(kColumnRnnState).has_value();
}

TEST_P(PolicyConformance, AnEpisodeBeginsWithAStateOfZeroAndResetBeginsIt) {
  const auto policy = Create(1);
  if (!IsRecurrent(policy.get())) return;
  const NamedValues settings = CollectSettings(policy.get());
  const auto act = [&](uint64_t seed) {
    return StoredStates(Act(policy->collect_mode(), GetParam().observation, settings, seed));
  };
  const std::vector<float> zero(act(1).size(), 0.0f);
  const std::vector<float> second = act(2);
  EXPECT_NE(second, zero) << "the state after the first row is not stored with the second one";
  const std::vector<float> third = act(3);
  ASSERT_THAT(policy->collect_mode()->Reset({2}), IsOk());
  const std::vector<float> fourth = act(4);
  const size_t size = zero.size() / kRows;
  for (size_t env = 0; env < kRows; ++env) {
    const auto state = absl::MakeConstSpan(fourth).subspan(env * size, size);
    EXPECT_EQ(state == absl::MakeConstSpan(zero).subspan(0, size), env == 2) << "env " << env;
  }
  ASSERT_THAT(policy->collect_mode()->Reset({}), IsOk());
  EXPECT_EQ(act(1), zero);
  EXPECT_EQ(act(2), second) << "an episode depends on the one before it";
  EXPECT_EQ(act(3), third);
}

TEST_P(PolicyConformance, TheStateBelongsToTheEnvNotToTheRow) {
  const auto together = Create(1);
  if (!IsRecurrent(together.get())) return;
  const auto apart = Create(1);
  const NamedValues settings = CollectSettings(together.get());
  const Batch obs = MakeObservationBatch(GetParam().observation, 2, 1);
  const auto act = [&](Policy* policy, int64_t first_row, const std::vector<int>& env_ids) {
    const auto rows = static_cast<int64_t>(env_ids.size());
    BatchBuilder out = *BatchBuilder::Create(policy->collect_mode()->output_spec(), rows);
    EXPECT_THAT(policy->collect_mode()->Forward(obs.view().Slice(first_row, rows), env_ids,
                                                settings, out.view()),
                IsOk());
    return StoredStates(std::move(out).Seal(rows));
  };
  act(together.get(), 0, {4, 7});
  act(apart.get(), 1, {7});
  act(apart.get(), 0, {4});
  const std::vector<float> states = act(together.get(), 0, {4, 7});
  std::vector<float> other = act(apart.get(), 0, {4});
  const std::vector<float> last = act(apart.get(), 1, {7});
  other.insert(other.end(), last.begin(), last.end());
  ASSERT_EQ(states.size(), other.size());
  for (size_t i = 0; i < states.size(); ++i) EXPECT_NEAR(states[i], other[i], 1e-5f);
}

TEST_P(PolicyConformance, EvaluatingAndFailingLeaveTheStatesOfTheCollectMode) {
  const auto policy = Create(1);
  if (!IsRecurrent(policy.get())) return;
  const auto alone = Create(1);
  const NamedValues settings = CollectSettings(policy.get());
  const SpecPtr& observation = GetParam().observation;
  Act(alone->collect_mode(), observation, settings, 1);
  Act(policy->collect_mode(), observation, settings, 1);
  Act(policy->eval_mode(), observation, {}, 5);
  const Batch obs = MakeObservationBatch(observation, kRows, 1);
  const BatchBuilder shorter = *BatchBuilder::Create(policy->collect_mode()->output_spec(), 1);
  EXPECT_FALSE(
      policy->collect_mode()->Forward(obs.view(), EnvIds(kRows), settings, shorter.view()).ok());
  EXPECT_EQ(Bytes(Act(policy->collect_mode(), observation, settings, 2)),
            Bytes(Act(alone->collect_mode(), observation, settings, 2)));
}

// The tests below need a learn mode; they pass at once for a policy without one.

TEST_P(PolicyConformance, AStepReportsTheMonitoredValues) {
  if (!GetParam().learns) return;
  const auto policy = Create(1);
  std::vector<LearnStep> steps(3);
  const Batch batch = GetParam().make_batch(GetParam().observation, GetParam().action, kRows, 1);
  ASSERT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  ASSERT_FALSE(steps.empty());
  for (const LearnStep& step : steps) {
    for (const std::string& name : policy->learn_mode()->monitor_vars()) {
      EXPECT_TRUE(step.scalars.Get(name).has_value()) << name;
    }
  }
  if (policy->learn_mode()->attributes().priority) {
    EXPECT_EQ(steps.back().priority.size(),
              static_cast<size_t>(batch.rows() / batch.sequence_length()));
  }
  EXPECT_FALSE(policy->learn_mode()->info().empty());
}

TEST_P(PolicyConformance, LearningIsDeterministic) {
  if (!GetParam().learns) return;
  const auto first = Create(1);
  const auto again = Create(1);
  const StateDict before = SavedModel(first.get());
  Train(first.get(), GetParam(), 100, 5);
  Train(again.get(), GetParam(), 100, 5);
  EXPECT_FALSE(SameState(before, SavedModel(first.get()))) << "nothing was learned";
  EXPECT_TRUE(SameState(SavedTraining(first.get()), SavedTraining(again.get())));
}

TEST_P(PolicyConformance, APolicyWithTheSameModelActsTheSame) {
  if (!GetParam().learns) return;
  const auto trained = Create(1);
  const auto other = Create(2);
  Train(trained.get(), GetParam(), 100, 5);
  StateDict model = SavedModel(trained.get());
  ASSERT_THAT(other->eval_mode()->LoadModel(&model), IsOk());
  EXPECT_TRUE(SameState(model, SavedModel(other.get())));
  EXPECT_EQ(Bytes(Act(trained->eval_mode(), GetParam().observation, {}, 3)),
            Bytes(Act(other->eval_mode(), GetParam().observation, {}, 3)));
}

TEST_P(PolicyConformance, TrainingContinuesByteForByteFromItsSavedState) {
  if (!GetParam().learns) return;
  const auto straight = Create(1);
  const auto resumed = Create(2);
  Train(straight.get(), GetParam(), 100, 7);
  StateDict state = SavedTraining(straight.get());
  ASSERT_THAT(resumed->learn_mode()->LoadModel(&state), IsOk());
  ASSERT_THAT(resumed->learn_mode()->LoadTrainState(&state), IsOk());
  EXPECT_TRUE(SameState(state, SavedTraining(resumed.get())));
  Train(straight.get(), GetParam(), 200, 7);
  Train(resumed.get(), GetParam(), 200, 7);
  EXPECT_TRUE(SameState(SavedTraining(straight.get()), SavedTraining(resumed.get())));
}

TEST_P(PolicyConformance, RefusesAStateThatDoesNotFitAndChangesNothing) {
  if (!GetParam().learns) return;
  const auto source = Create(2);
  Train(source.get(), GetParam(), 100, 3);
  const StateDict good = SavedTraining(source.get());
  const auto policy = Create(1);
  const StateDict before = SavedTraining(policy.get());
  for (const std::string& name : good.Names()) {
    const bool of_model = absl::string_view(name).substr(0, 6) == "model/";
    const auto load = [&](StateDict* state) {
      return of_model ? policy->learn_mode()->LoadModel(state)
                      : policy->learn_mode()->LoadTrainState(state);
    };
    TensorMap missing;
    TensorMap misshapen;
    for (const auto& [other, tensor] : good.tensors()) {
      if (other != name) missing.Set(other, tensor);
      misshapen.Set(other, other == name ? Tensor::Zeros(tensor.dtype(), {3, 1, 5}) : tensor);
    }
    StateDict missing_state(missing, "missing");
    EXPECT_FALSE(load(&missing_state).ok()) << "without " << name;
    StateDict misshapen_state(misshapen, "misshapen");
    EXPECT_FALSE(load(&misshapen_state).ok()) << name << " of another shape";
    EXPECT_TRUE(SameState(before, SavedTraining(policy.get()))) << name;
  }
}

TEST_P(PolicyConformance, SavedNumbersNearTheEndsOfTheirTypeAreRefusedOrWork) {
  if (!GetParam().learns) return;
  const auto source = Create(2);
  const StateDict good = SavedTraining(source.get());
  const auto policy = Create(1);
  const Batch batch = GetParam().make_batch(GetParam().observation, GetParam().action, kRows, 1);
  ForEachExtremeNumber(good, [&](StateDict* damaged) {
    if (!policy->learn_mode()->LoadTrainState(damaged).ok()) return;
    std::vector<LearnStep> steps;
    EXPECT_THAT(policy->learn_mode()->Forward(batch, {}, &steps), IsOk());
  });
}

TEST_P(PolicyConformance, AnInvalidBatchChangesNothing) {
  if (!GetParam().learns) return;
  const auto policy = Create(1);
  Train(policy.get(), GetParam(), 100, 3);
  const StateDict before = SavedTraining(policy.get());
  const Batch good = GetParam().make_batch(GetParam().observation, GetParam().action, kRows, 1);
  std::vector<LearnStep> steps;
  LearnMode* const learn = policy->learn_mode();
  EXPECT_THAT(learn->Forward(good.Slice(0, 0), {}, &steps), IsInvalid());
  const std::string& needed = GetParam().needed_column;
  EXPECT_THAT(learn->Forward(Without(good, needed), {}, &steps), IsInvalid(needed));
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(learn->Forward(WithFirstValue(good, needed, kNan), {}, &steps), IsInternal());
  EXPECT_TRUE(SameState(before, SavedTraining(policy.get())));
  EXPECT_THAT(learn->Forward(good, {}, &steps), IsOk()) << "and learning goes on";
}

// Columns that a policy does not read may be anything.
TEST_P(PolicyConformance, ABatchOfOtherTypesOrShapesThrowsNothing) {
  if (!GetParam().learns) return;
  const auto policy = Create(1);
  const Batch good = GetParam().make_batch(GetParam().observation, GetParam().action, kRows, 1);
  std::vector<LearnStep> steps;
  const std::string& needed = GetParam().needed_column;
  for (int i = 0; i < good.spec().size(); ++i) {
    const FieldSpec& field = good.spec().field(i);
    for (const FieldSpec& other : {OfAnotherType(field), OfAnotherShape(field)}) {
      const Batch bad = WithField(good, i, other);
      absl::Status status;
      EXPECT_NO_THROW(status = policy->learn_mode()->Forward(bad, {}, &steps))
          << field.name << " as " << other.DebugString();
      EXPECT_TRUE(!status.ok() || field.name != needed) << needed << other.DebugString();
    }
  }
}

TEST_P(PolicyConformance, ABatchWithActionsThatDoNotExistIsRefused) {
  const FieldSpec& action = GetParam().action->field(0);
  if (!GetParam().learns || !action.is_discrete()) return;
  const auto policy = Create(1);
  const Batch good = GetParam().make_batch(GetParam().observation, GetParam().action, kRows, 1);
  const std::optional<int> index = good.spec().Find(action.name);
  if (!index.has_value()) return;
  std::vector<LearnStep> steps;
  for (const int64_t wrong :
       {int64_t{-1}, action.num_categories, std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    BatchBuilder builder = *BatchBuilder::Create(good.spec_ptr(), good.rows());
    CopyRows(good.view(), builder.view(), 0);
    builder.column<int64_t>(*index)[0] = wrong;
    const Batch bad = std::move(builder).Seal(good.rows()).AsSequences(good.sequence_length());
    EXPECT_FALSE(policy->learn_mode()->Forward(bad, {}, &steps).ok()) << wrong;
  }
}

}  // namespace ding
