#include "ding_worker/policy/impala/impala_test_batch.h"

#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/policy/random_batch.h"

namespace ding {

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

}  // namespace ding
