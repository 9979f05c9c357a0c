#include "ding_worker/policy/random_batch.h"

#include <utility>
#include <vector>

#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"

namespace ding {
namespace {

void FillColumn(const MutableColumnsView& view, int index, Rng* rng) {
  const FieldSpec& field = view.spec().field(index);
  if (field.is_discrete()) {
    for (int64_t& value : view.column<int64_t>(index)) {
      value = static_cast<int64_t>(rng->UniformInt(static_cast<uint64_t>(field.num_categories)));
    }
    return;
  }
  for (float& value : view.column<float>(index)) value = static_cast<float>(rng->Uniform(-1, 1));
}

}  // namespace

Batch MakeObservationBatch(const SpecPtr& observation, int64_t rows, uint64_t seed) {
  BatchBuilder builder = *BatchBuilder::Create(observation, rows);
  Rng rng(seed, "random_batch/observation");
  for (int i = 0; i < observation->size(); ++i) FillColumn(builder.view(), i, &rng);
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
  for (float& discount : builder.column<float>(reward + 1)) {
    discount = rng.UniformInt(5) == 0 ? 0.0f : 0.9f;
  }
  for (int32_t& n_step : builder.column<int32_t>(reward + 2)) n_step = 1;
  for (int64_t& collect_iter : builder.column<int64_t>(reward + 3)) collect_iter = 0;
  return std::move(builder).Seal(rows);
}

}  // namespace ding
