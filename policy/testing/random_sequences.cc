#include "ding_worker/policy/testing/random_sequences.h"

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/policy/random_batch.h"

namespace ding {
namespace {

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
