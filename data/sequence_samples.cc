#include "ding_worker/data/sequence_samples.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace {

// Longer samples are a mistake: padding would fill the memory.
constexpr int64_t kMaxLength = int64_t{1} << 20;

// Writes the beginnings of the columns of `batch` to `columns`.
void ListColumns(const Batch& batch, std::vector<const std::byte*>* columns) {
  const ColumnsView view = batch.view();
  columns->clear();
  for (int i = 0; i < batch.spec().size(); ++i) columns->push_back(view.raw_column(i));
}

}  // namespace

absl::StatusOr<SegmentBatch> SequenceSamples::Cut(const SegmentBatch& data) {
  if (length_ < 1 || length_ > kMaxLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples of ", length_, " rows, expected 1 to ", kMaxLength));
  }
  DING_RETURN_IF_ERROR(ValidateSegments(data));
  DING_RETURN_IF_ERROR(Resolve(data));
  source_rows_.clear();
  mask_.clear();
  final_obs_.clear();
  ListColumns(data.rows, &row_columns_);
  ListColumns(data.final_obs, &final_obs_columns_);
  SegmentBatch samples;
  samples.segments.reserve(data.segments.size() + static_cast<size_t>(data.size() / length_));
  for (size_t i = 0; i < data.segments.size(); ++i) AddSamples(data, i, &samples.segments);
  DING_ASSIGN_OR_RETURN(samples.rows, GatherSamples(data.rows));
  DING_ASSIGN_OR_RETURN(samples.final_obs, GatherFinalObs());
  return samples;
}

void SequenceSamples::AddSamples(const SegmentBatch& data, size_t segment,
                                 std::vector<Segment>* samples) {
  const int64_t length = data.segments[segment].length;
  const int64_t whole = length / length_ * length_;
  for (int64_t first = 0; first < whole; first += length_) {
    AddSample(data, segment, first, length_, samples);
  }
  if (whole == length || last_ == LastSample::kDrop) return;
  if (last_ == LastSample::kLast && whole > 0) {
    AddSample(data, segment, length - length_, length_, samples);
  } else {
    AddSample(data, segment, whole, length - whole, samples);
  }
}

// Adds a sample of `rows` rows from row `first` of the segment on, filled up if they are fewer than
// T.
void SequenceSamples::AddSample(const SegmentBatch& data, size_t segment, int64_t first,
                                int64_t rows, std::vector<Segment>* samples) {
  const Segment& from = data.segments[segment];
  const int64_t begin = from.begin + first;
  for (int64_t t = 0; t < length_; ++t) source_rows_.push_back(begin + std::min(t, rows - 1));
  for (int64_t t = 0; t < length_; ++t) mask_.push_back(t < rows ? 1 : 0);
  Segment sample = from;
  sample.first_step = from.first_step + first;
  sample.begin = static_cast<int64_t>(samples->size()) * length_;
  sample.length = length_;
  if (first + rows == from.length) {
    final_obs_.push_back({final_obs_columns_.data(), static_cast<int64_t>(segment)});
  } else {
    sample.end = SegmentEnd::kCut;
    final_obs_.push_back({row_columns_.data(), begin + rows});
  }
  samples->push_back(sample);
}

absl::Status SequenceSamples::Resolve(const SegmentBatch& data) {
  const SpecPtr& spec = data.rows.spec_ptr();
  if (resolved_ == spec && final_obs_pool_->spec() == data.final_obs.spec_ptr()) {
    return absl::OkStatus();
  }
  resolved_.reset();
  std::vector<FieldSpec> fields(spec->fields().begin(), spec->fields().end());
  fields.push_back(Scalar(kColumnMask, DType::kBool));
  absl::StatusOr<SpecPtr> with_mask = MakeSpec(std::move(fields));
  if (!with_mask.ok()) return Annotate(with_mask.status(), "the rows of the samples");
  rows_pool_.emplace(*std::move(with_mask));
  final_obs_pool_.emplace(data.final_obs.spec_ptr());
  resolved_ = spec;
  return absl::OkStatus();
}

absl::StatusOr<Batch> SequenceSamples::GatherSamples(const Batch& rows) {
  const auto count = static_cast<int64_t>(source_rows_.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder samples, rows_pool_->Allocate(std::max<int64_t>(1, count)));
  GatherRows(rows.view(), source_rows_, samples.view(), 0);
  absl::c_copy(mask_, samples.column<uint8_t>(rows.spec().size()).begin());
  return std::move(samples).Seal(count).AsSequences(length_);
}

absl::StatusOr<Batch> SequenceSamples::GatherFinalObs() {
  const auto count = static_cast<int64_t>(final_obs_.size());
  DING_ASSIGN_OR_RETURN(BatchBuilder obs, final_obs_pool_->Allocate(std::max<int64_t>(1, count)));
  for (int i = 0; i < obs.spec().size(); ++i) {
    GatherColumn(final_obs_, i, obs.spec().row_bytes(i), obs.view().raw_column(i));
  }
  return std::move(obs).Seal(count);
}

}  // namespace ding
