#include "ding_worker/policy/r2d2/sampled_sequence_reader.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"

namespace ding {
namespace {

constexpr char kWhere[] = "training batch";

// Returns the index of an optional column of one `dtype` element.
absl::StatusOr<std::optional<int>> FindScalar(const Spec& batch, absl::string_view name,
                                              DType dtype) {
  const std::optional<int> index = batch.Find(name);
  if (!index.has_value()) return index;
  const FieldSpec& field = batch.field(*index);
  if (field.dtype == dtype && field.num_elements() == 1) return index;
  return absl::InvalidArgumentError(absl::StrCat(kWhere, ": column '", name, "' is ",
                                                 field.DebugString(), ", expected ",
                                                 Scalar(name, dtype).DebugString()));
}

// Copies the rows of width `width` of `values` that begin sequences of `length` rows.
void CopyFirstRows(absl::Span<const float> values, size_t width, size_t length,
                   std::vector<float>* first) {
  const size_t stride = width * length;
  first->resize(values.size() / length);
  for (size_t from = 0, to = 0; from < values.size(); from += stride, to += width) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(from), width,
                first->begin() + static_cast<std::ptrdiff_t>(to));
  }
}

}  // namespace

SampledSequenceReader::SampledSequenceReader(SpecPtr observation, SpecPtr action,
                                             int64_t state_size)
    : transitions_(std::move(observation), std::move(action)),
      state_(*MakeSpec({Box(kColumnRnnState, {state_size})}), "", kWhere) {}

absl::Status SampledSequenceReader::Resolve(const Spec& batch) {
  if (!batch.Find(kColumnRnnState).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": column '", kColumnRnnState,
                     "' is missing, the recurrent state before each row: the collect mode of the "
                     "same policy writes it, and "
                     "replay buffer 'sequence' keeps it; the batch has\n",
                     batch.DebugString()));
  }
  DING_RETURN_IF_ERROR(state_.Resolve(batch));
  DING_ASSIGN_OR_RETURN(mask_, FindScalar(batch, kColumnMask, DType::kBool));
  DING_ASSIGN_OR_RETURN(burn_in_, FindScalar(batch, kColumnBurnIn, DType::kBool));
  DING_ASSIGN_OR_RETURN(is_first_, FindScalar(batch, kColumnIsFirst, DType::kBool));
  DING_ASSIGN_OR_RETURN(n_step_, FindScalar(batch, kColumnNStep, DType::kInt32));
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SampledSequenceReader::ReadBurnIn(const Batch& batch) const {
  if (!burn_in_.has_value()) return 0;
  const absl::Span<const uint8_t> column = batch.column<uint8_t>(*burn_in_);
  const int64_t length = batch.sequence_length();
  int64_t burn_in = 0;
  while (burn_in < length && column[static_cast<size_t>(burn_in)] != 0) ++burn_in;
  if (burn_in == length) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": all ", length,
                     " rows of a sequence are burn-in, so that none is left to learn from: the "
                     "burn_in of the replay buffer must be below its unroll_len"));
  }
  for (int64_t row = 0; row < batch.rows(); ++row) {
    if ((column[static_cast<size_t>(row)] != 0) == (row % length < burn_in)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        kWhere, ": column '", kColumnBurnIn, "' of row ", row % length, " of sequence ",
        row / length, " is ", column[static_cast<size_t>(row)] != 0, ", but sequence 0 has ",
        burn_in, " rows of burn-in: expected the same first rows in each sequence"));
  }
  return burn_in;
}

absl::Status SampledSequenceReader::CheckOneStep(const Batch& batch) const {
  if (!n_step_.has_value()) return absl::OkStatus();
  const absl::Span<const int32_t> steps = batch.column<int32_t>(*n_step_);
  for (size_t row = 0; row < steps.size(); ++row) {
    if (steps[row] == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": row ", row, " is a window of ", steps[row],
                     " steps, expected 1, because r2d2 sums the steps itself: the replay buffer "
                     "needs nstep 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SequenceView> SampledSequenceReader::Read(const Batch& batch) {
  SequenceView view;
  DING_ASSIGN_OR_RETURN(view.transitions, transitions_.Read(batch));
  const int64_t length = batch.sequence_length();
  if (length < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        kWhere,
        ": it has single rows, but r2d2 learns from sequences of 2 or more: use replay "
        "buffer 'sequence', whose unroll_len is the number of rows"));
  }
  if (resolved_ != batch.spec_ptr()) {
    resolved_.reset();
    DING_RETURN_IF_ERROR(Resolve(batch.spec()));
    resolved_ = batch.spec_ptr();
  }
  DING_RETURN_IF_ERROR(CheckOneStep(batch));
  const ColumnsView states = state_.Bind(batch.view());
  DING_RETURN_IF_ERROR(state_.CheckValues(states));
  view.rows.length = length;
  DING_ASSIGN_OR_RETURN(view.rows.burn_in, ReadBurnIn(batch));
  if (mask_.has_value()) view.rows.mask = batch.column<uint8_t>(*mask_);
  if (is_first_.has_value()) view.rows.is_first = batch.column<uint8_t>(*is_first_);
  const auto state_size = static_cast<size_t>(state_.spec()->field(0).num_elements());
  CopyFirstRows(states.column<float>(0), state_size, static_cast<size_t>(length), &first_states_);
  view.state = first_states_;
  if (!view.transitions.weight.empty()) {
    CopyFirstRows(view.transitions.weight, 1, static_cast<size_t>(length), &weights_);
    view.weight = weights_;
  }
  return view;
}

}  // namespace ding
