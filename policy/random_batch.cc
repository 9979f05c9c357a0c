#include "ding_worker/policy/random_batch.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/policy/action_mask.h"

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

}  // namespace

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

}  // namespace ding
