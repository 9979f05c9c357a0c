#include "ding_worker/policy/testing/random_batch.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/action_space.h"

namespace ding {
namespace {

bool IsActionMask(absl::string_view column) {
  return column == kActionMaskField || column == NextObsColumn(kActionMaskField);
}

void FillColumn(const MutableColumnsView& view, int index, Rng* rng) {
  const FieldSpec& field = view.spec().field(index);
  if (field.is_discrete()) {
    const absl::Span<int64_t> values = view.column<int64_t>(index);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t count = field.CategoryCount(static_cast<int64_t>(i) % field.num_elements());
      values[i] = static_cast<int64_t>(rng->UniformInt(static_cast<uint64_t>(count)));
    }
    return;
  }
  if (IsActionMask(field.name)) {
    for (uint8_t& legal : view.column<uint8_t>(index)) legal = rng->UniformInt(3) == 0 ? 0 : 1;
    return;
  }
  if (field.dtype == DType::kUint8) {
    for (uint8_t& pixel : view.column<uint8_t>(index)) {
      pixel = static_cast<uint8_t>(rng->UniformInt(256));
    }
    return;
  }
  for (float& value : view.column<float>(index)) value = static_cast<float>(rng->Uniform(-1, 1));
}

// Makes one category of each element legal: that of `action`, or the first one if it is empty.
void MakeLegal(absl::Span<const int64_t> counts, absl::Span<const int64_t> action,
               absl::Span<uint8_t> mask) {
  size_t begin = 0;
  for (size_t i = 0; begin < mask.size(); ++i) {
    mask[begin + static_cast<size_t>(action.empty() ? 0 : action[i])] = 1;
    begin += static_cast<size_t>(counts[i % counts.size()]);
  }
}

void MakeMasksLegal(const MutableColumnsView& view, absl::Span<const int64_t> counts,
                    absl::Span<const int64_t> action) {
  for (int i = 0; i < view.spec().size(); ++i) {
    const std::string& name = view.spec().field(i).name;
    if (!IsActionMask(name)) continue;
    MakeLegal(counts, IsObsColumn(name) ? action : absl::Span<const int64_t>(),
              view.column<uint8_t>(i));
  }
}

// Copies row `from` of the first `fields` columns to row `to`.
void CopyRow(const MutableColumnsView& view, int fields, int64_t from, int64_t to) {
  for (int i = 0; i < fields; ++i) {
    const int64_t bytes = view.spec().row_bytes(i);
    std::memcpy(view.raw_column(i) + to * bytes, view.raw_column(i) + from * bytes,
                static_cast<size_t>(bytes));
  }
}

// Makes next_obs of row `row` the observation of the row after it.
void Link(const MutableColumnsView& view, const Spec& observation, int64_t row) {
  for (const FieldSpec& field : observation.fields()) {
    const int obs = *view.spec().Find(field.name);
    const int next = *view.spec().Find(NextObsColumn(field.name));
    const int64_t bytes = view.spec().row_bytes(obs);
    std::memcpy(view.raw_column(next) + row * bytes, view.raw_column(obs) + (row + 1) * bytes,
                static_cast<size_t>(bytes));
  }
}

SpecPtr WithSequenceColumns(const Spec& transitions, const RandomSequencesOptions& options) {
  std::vector<FieldSpec> fields(transitions.fields().begin(), transitions.fields().end());
  fields.push_back(Box(kColumnRnnState, {options.state_size}));
  fields.push_back(Scalar(kColumnBurnIn, DType::kBool));
  if (options.padding) fields.push_back(Scalar(kColumnMask, DType::kBool));
  if (options.cross_episodes) fields.push_back(Scalar(kColumnIsFirst, DType::kBool));
  if (options.weights) fields.push_back(Scalar(kColumnWeight, DType::kFloat32));
  return *MakeSpec(std::move(fields));
}

}  // namespace

SpecPtr VectorObservation(int64_t width) { return *MakeSpec({Box("obs", {width})}); }

FieldSpec ActionMaskSpec(int64_t categories) {
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {categories};
  return mask;
}

SpecPtr MaskedObservation(int64_t categories, int64_t width) {
  return *MakeSpec({ActionMaskSpec(categories), Box("obs/x", {width})});
}

SpecPtr DiscreteAction(int64_t categories) { return *MakeSpec({Discrete("action", categories)}); }

SpecPtr BoxAction() { return *MakeSpec({Box("action", {2}, {-2, -1}, {2, 3})}); }

Batch MakeObservationBatch(const SpecPtr& observation, int64_t rows, uint64_t seed) {
  BatchBuilder builder = *BatchBuilder::Create(observation, rows);
  Rng rng(seed, "random_batch/observation");
  for (int i = 0; i < observation->size(); ++i) FillColumn(builder.view(), i, &rng);
  for (int i = 0; i < observation->size(); ++i) {
    const FieldSpec& field = observation->field(i);
    if (!IsActionMask(field.name)) continue;
    // The action space is not known here. With one illegal category per row, each element of two or
    // more categories has a legal one.
    const absl::Span<uint8_t> mask = builder.view().column<uint8_t>(i);
    const auto width = static_cast<size_t>(field.num_elements());
    for (size_t at = 0; at < mask.size(); ++at) {
      if (at % width + 1 < width) mask[at] = 1;
    }
  }
  return std::move(builder).Seal(rows);
}

Batch MakeTransitionBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                          uint64_t seed) {
  std::vector<FieldSpec> fields(observation->fields().begin(), observation->fields().end());
  fields.insert(fields.end(), action->fields().begin(), action->fields().end());
  for (FieldSpec field : observation->fields()) {
    field.name = NextObsColumn(field.name);
    fields.push_back(std::move(field));
  }
  const int reward = static_cast<int>(fields.size());
  fields.push_back(Scalar(kColumnReward, DType::kFloat32));
  fields.push_back(Scalar(kColumnDiscount, DType::kFloat32));
  fields.push_back(Scalar(kColumnNStep, DType::kInt32));
  fields.push_back(Scalar(kColumnCollectIter, DType::kInt64));

  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(std::move(fields)), rows);
  Rng rng(seed, "random_batch/transition");
  for (int i = 0; i <= reward; ++i) FillColumn(builder.view(), i, &rng);
  const FieldSpec& first_action = action->field(0);
  if (first_action.is_discrete()) {
    MakeMasksLegal(builder.view(), CategoryCounts(first_action),
                   builder.column<int64_t>(observation->size()));
  }
  for (float& discount : builder.column<float>(reward + 1)) {
    discount = rng.UniformInt(5) == 0 ? 0.0f : 0.9f;
  }
  for (int32_t& n_step : builder.column<int32_t>(reward + 2)) n_step = 1;
  for (int64_t& collect_iter : builder.column<int64_t>(reward + 3)) collect_iter = 0;
  return std::move(builder).Seal(rows);
}

Batch MakeOnPolicyBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                        uint64_t seed) {
  std::vector<FieldSpec> fields(observation->fields().begin(), observation->fields().end());
  fields.push_back(action->field(0));
  const bool discrete = action->field(0).is_discrete();
  if (!discrete) fields.push_back(Box("raw_action", action->field(0).shape));
  for (const char* const name : {kColumnLogProb, kColumnValue, kColumnAdvantage, kColumnReturn}) {
    fields.push_back(Scalar(name, DType::kFloat32));
  }
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(std::move(fields)), rows);
  Rng rng(seed, "random_batch/on_policy");
  for (int i = 0; i < builder.spec().size(); ++i) FillColumn(builder.view(), i, &rng);
  if (discrete) {
    MakeMasksLegal(builder.view(), CategoryCounts(action->field(0)),
                   builder.column<int64_t>(observation->size()));
  }
  return std::move(builder).Seal(rows);
}

Batch MakeImpalaTestBatch(const SpecPtr& observation, const SpecPtr& action, int64_t rows,
                          int64_t length, uint64_t seed) {
  std::vector<FieldSpec> taken = {action->field(0)};
  if (!taken[0].is_discrete()) taken.push_back(Box("raw_action", taken[0].shape));
  const Batch transitions =
      MakeTransitionBatch(observation, *MakeSpec(std::move(taken)), rows, seed);
  std::vector<FieldSpec> fields(transitions.spec().fields().begin(),
                                transitions.spec().fields().end());
  const int log_prob = static_cast<int>(fields.size());
  fields.push_back(Scalar(kColumnLogProb, DType::kFloat32));
  for (const char* const name : {kColumnMask, kColumnBurnIn, kColumnIsFirst}) {
    fields.push_back(Scalar(name, DType::kBool));
  }
  BatchBuilder builder = *BatchBuilder::Create(*MakeSpec(std::move(fields)), rows);
  CopyRows(transitions.view(), builder.view(), 0);
  Rng rng(seed, "impala_test_batch");
  for (float& value : builder.column<float>(log_prob)) {
    value = static_cast<float>(rng.Uniform(-2, -0.1));
  }
  const absl::Span<uint8_t> mask = builder.column<uint8_t>(log_prob + 1);
  const absl::Span<uint8_t> is_first = builder.column<uint8_t>(log_prob + 3);
  for (uint8_t& burn_in : builder.column<uint8_t>(log_prob + 2)) burn_in = 0;
  const auto steps = static_cast<size_t>(length);
  for (size_t begin = 0; begin < mask.size(); begin += steps) {
    const bool padded = begin / steps % 2 == 1;
    const size_t count = padded ? 1 + rng.UniformInt(steps) : steps;
    for (size_t t = 0; t < steps; ++t) {
      mask[begin + t] = t < count ? 1 : 0;
      is_first[begin + t] = t < count && rng.UniformInt(4) == 0 ? 1 : 0;
    }
  }
  return std::move(builder).Seal(rows).AsSequences(length);
}

Batch MakeRandomSequences(const SpecPtr& observation, const SpecPtr& action, uint64_t seed,
                          const RandomSequencesOptions& options) {
  const int64_t rows = options.sequences * options.length;
  const Batch transitions = MakeTransitionBatch(observation, action, rows, seed);
  const int transition_fields = transitions.spec().size();
  BatchBuilder builder =
      *BatchBuilder::Create(WithSequenceColumns(transitions.spec(), options), rows);
  const MutableColumnsView view = builder.view();
  for (int i = 0; i < transition_fields; ++i) {
    const absl::string_view bytes = transitions.tensor(i).bytes();
    std::memcpy(view.raw_column(i), bytes.data(), bytes.size());
  }
  Rng rng(seed, "random_sequences");
  const auto column = [&](const char* name) { return *view.spec().Find(name); };
  for (float& value : view.column<float>(column(kColumnRnnState))) {
    value = static_cast<float>(rng.Uniform(-1, 1));
  }
  const absl::Span<float> discount = view.column<float>(column(kColumnDiscount));
  const absl::Span<uint8_t> burn_in = view.column<uint8_t>(column(kColumnBurnIn));
  for (int64_t b = 0; b < options.sequences; ++b) {
    const int64_t begin = b * options.length;
    int64_t valid = options.length;
    if (options.padding) {
      valid -= static_cast<int64_t>(
          rng.UniformInt(static_cast<uint64_t>(options.length - options.burn_in)));
    }
    bool is_first = options.cross_episodes && rng.UniformInt(2) == 0;
    for (int64_t t = 0; t < options.length; ++t) {
      const int64_t row = begin + t;
      const auto i = static_cast<size_t>(row);
      burn_in[i] = t < options.burn_in ? 1 : 0;
      if (options.padding) view.column<uint8_t>(column(kColumnMask))[i] = t < valid ? 1 : 0;
      if (options.cross_episodes) {
        view.column<uint8_t>(column(kColumnIsFirst))[i] = is_first && t < valid ? 1 : 0;
      }
      const bool ends = options.cross_episodes && rng.UniformInt(3) == 0;
      is_first = ends;
      if (t >= valid) {
        CopyRow(view, transition_fields, begin + valid - 1, row);
      } else if (t + 1 < valid && !ends) {
        Link(view, *observation, row);
        discount[i] = 0.9f;
      } else {
        discount[i] = rng.UniformInt(2) == 0 ? 0.0f : 0.9f;
      }
    }
    if (!options.weights) continue;
    const auto weight = static_cast<float>(rng.Uniform(0.1, 1));
    const absl::Span<float> weights = view.column<float>(column(kColumnWeight));
    for (int64_t t = 0; t < options.length; ++t) weights[static_cast<size_t>(begin + t)] = weight;
  }
  return std::move(builder).Seal(rows).AsSequences(options.length);
}

}  // namespace ding
