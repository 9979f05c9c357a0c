#include "ding_worker/policy/impala/impala_batch_reader.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"

namespace ding {
namespace {

constexpr char kWhere[] = "training batch";

}  // namespace

ImpalaBatchReader::OptionalColumn::OptionalColumn(const FieldSpec& field)
    : binding(*MakeSpec({field}), "", kWhere) {}

absl::Status ImpalaBatchReader::OptionalColumn::Resolve(const Spec& batch) {
  exists = batch.Find(binding.spec()->field(0).name).has_value();
  return exists ? binding.Resolve(batch) : absl::OkStatus();
}

ImpalaBatchReader::ImpalaBatchReader(SpecPtr observation, const FieldSpec& taken)
    : transitions_(std::move(observation), *MakeSpec({taken})),
      log_prob_(*MakeSpec({Scalar(kColumnLogProb, DType::kFloat32)}), "", kWhere),
      mask_(Scalar(kColumnMask, DType::kBool)),
      is_first_(Scalar(kColumnIsFirst, DType::kBool)),
      burn_in_(Scalar(kColumnBurnIn, DType::kBool)),
      n_step_(Scalar(kColumnNStep, DType::kInt32)) {}

absl::Status ImpalaBatchReader::Resolve(const Spec& batch) {
  DING_RETURN_IF_ERROR(log_prob_.Resolve(batch));
  for (OptionalColumn* const column : {&mask_, &is_first_, &burn_in_, &n_step_}) {
    DING_RETURN_IF_ERROR(column->Resolve(batch));
  }
  return absl::OkStatus();
}

absl::Status ImpalaBatchReader::CheckWindows(const ColumnsView& columns) {
  if (n_step_.exists) {
    const auto n_step = n_step_.binding.Bind(columns).column<int32_t>(0);
    for (size_t i = 0; i < n_step.size(); ++i) {
      if (n_step[i] == 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(kWhere, ": row ", i, " sums the rewards of ", n_step[i],
                       " steps, expected 1; set nstep of the buffer to 1"));
    }
  }
  if (burn_in_.exists) {
    const auto burn_in = burn_in_.binding.Bind(columns).column<uint8_t>(0);
    for (size_t i = 0; i < burn_in.size(); ++i) {
      if (burn_in[i] == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(kWhere, ": row ", i,
                       " is burn-in, but the network has no state to warm up; set burn_in of the "
                       "buffer to 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status ImpalaBatchReader::FindEnds(ImpalaBatch* read, absl::Span<const uint8_t> is_first) {
  const absl::Span<const uint8_t> mask = read->mask;
  const absl::Span<const float> discount = read->rows.discount;
  const auto length = static_cast<size_t>(read->length);
  end_.resize(discount.size());
  bootstrap_rows_.clear();
  for (size_t i = 0; i < end_.size(); ++i) {
    if (!mask.empty() && mask[i] == 0) {
      if (i % length == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(kWhere, ": sequence ", i / length, " begins with padding (row ", i, ")"));
      }
      end_[i] = 1;
      continue;
    }
    if (i % length != 0 && !mask.empty() && mask[i - 1] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(kWhere, ": row ", i, " of sequence ", i / length,
                       " follows padding, expected that padding is at the end of a sequence only"));
    }
    const bool last = (i + 1) % length == 0 || (!mask.empty() && mask[i + 1] == 0);
    const bool ends = last || discount[i] == 0 || (!is_first.empty() && is_first[i + 1] != 0);
    end_[i] = ends ? 1 : 0;
    if (ends && discount[i] != 0) bootstrap_rows_.push_back(static_cast<int64_t>(i));
  }
  read->end = end_;
  read->bootstrap_rows = bootstrap_rows_;
  return absl::OkStatus();
}

absl::StatusOr<ImpalaBatch> ImpalaBatchReader::Read(const Batch& batch) {
  ImpalaBatch read;
  read.length = batch.sequence_length();
  DING_ASSIGN_OR_RETURN(read.rows, transitions_.Read(batch));
  if (!read.rows.weight.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhere, ": it has importance weights (column '", kColumnWeight,
                     "'), which have no place in the loss; draw uniformly"));
  }
  if (resolved_ != batch.spec_ptr()) {
    resolved_.reset();
    DING_RETURN_IF_ERROR(Resolve(batch.spec()));
    resolved_ = batch.spec_ptr();
  }
  const ColumnsView columns = batch.view();
  const ColumnsView log_prob = log_prob_.Bind(columns);
  DING_RETURN_IF_ERROR(log_prob_.CheckValues(log_prob));
  read.behaviour_log_prob = log_prob.column<float>(0);
  DING_RETURN_IF_ERROR(CheckWindows(columns));
  if (mask_.exists) read.mask = mask_.binding.Bind(columns).column<uint8_t>(0);
  absl::Span<const uint8_t> is_first;
  if (is_first_.exists) is_first = is_first_.binding.Bind(columns).column<uint8_t>(0);
  DING_RETURN_IF_ERROR(FindEnds(&read, is_first));
  return read;
}

}  // namespace ding
