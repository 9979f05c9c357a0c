#include "ding_worker/replay_buffer/testing/reference_buffer.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"

namespace ding {
namespace {

std::string BytesOf(const ColumnsView& view, int field, int64_t row) {
  const auto bytes = static_cast<size_t>(view.spec().row_bytes(field));
  return std::string(
      reinterpret_cast<const char*>(view.raw_column(field)) + static_cast<size_t>(row) * bytes,
      bytes);
}

std::vector<std::string> RowOf(const Batch& batch, int64_t row) {
  std::vector<std::string> columns;
  for (int field = 0; field < batch.spec().size(); ++field) {
    columns.push_back(BytesOf(batch.view(), field, row));
  }
  return columns;
}

absl::Status Compare(const Batch& batch, int64_t row, const std::string& name,
                     const std::string& expected) {
  DING_ASSIGN_OR_RETURN(const int field, batch.spec().IndexOf(name, "drawn batch"));
  const std::string found = BytesOf(batch.view(), field, row);
  if (found == expected) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, " is ", absl::BytesToHexString(found),
                                          ", expected ", absl::BytesToHexString(expected)));
}

absl::Status CompareNear(const std::string& name, double found, double expected) {
  if (std::abs(found - expected) <= 1e-6 * (1 + std::abs(expected))) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, " is ", found, ", expected ", expected));
}

}  // namespace

void ReferenceBuffer::Push(const SegmentBatch& data) {
  names_.clear();
  for (const FieldSpec& field : data.rows.spec().fields()) names_.push_back(field.name);
  for (size_t s = 0; s < data.segments.size(); ++s) {
    const Segment& segment = data.segments[s];
    for (int64_t i = 0; i < segment.length; ++i) {
      Row row;
      row.id = next_id_++;
      row.stream = segment.stream;
      row.step = segment.first_step + i;
      row.last_of_segment = i + 1 == segment.length;
      row.end = segment.end;
      row.columns = RowOf(data.rows, segment.begin + i);
      row.final_obs = RowOf(data.final_obs, static_cast<int64_t>(s));
      row.reward = data.rows.column<float>("reward")[segment.begin + i];
      rows_.push_back(std::move(row));
      if (count() > capacity_rows_) rows_.pop_front();
    }
  }
}

const ReferenceBuffer::Row* ReferenceBuffer::SuccessorOf(const Row& row) const {
  if (row.last_of_segment && row.end != SegmentEnd::kCut) return nullptr;
  for (const Row& other : rows_) {
    if (other.id <= row.id || other.stream != row.stream) continue;
    return other.step == row.step + 1 ? &other : nullptr;
  }
  return nullptr;
}

ReferenceBuffer::Expected ReferenceBuffer::Window(const Row& row) const {
  Expected expected;
  const Row* at = &row;
  for (;;) {
    expected.reward += std::pow(gamma_, static_cast<double>(expected.n_step)) * at->reward;
    ++expected.n_step;
    const Row* const next = SuccessorOf(*at);
    const bool terminated = at->last_of_segment && at->end == SegmentEnd::kTerminated;
    if (next == nullptr || expected.n_step == nstep_) {
      expected.discount = terminated ? 0 : std::pow(gamma_, static_cast<double>(expected.n_step));
      expected.next_obs = next == nullptr ? at->final_obs : next->columns;
      return expected;
    }
    at = next;
  }
}

absl::Status ReferenceBuffer::CheckRow(const Batch& batch, int64_t index) const {
  const int64_t id = batch.column<int64_t>("replay_unique_id")[index];
  if (rows_.empty() || id < rows_.front().id || id > rows_.back().id) {
    return absl::InternalError(absl::StrCat("row ", id, " should be gone"));
  }
  const Row& row = rows_[static_cast<size_t>(id - rows_.front().id)];
  const Expected expected = Window(row);
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == "reward") continue;
    DING_RETURN_IF_ERROR(Compare(batch, index, names_[i], row.columns[i]));
  }
  for (size_t i = 0; i < row.final_obs.size(); ++i) {
    DING_RETURN_IF_ERROR(
        Compare(batch, index, absl::StrCat("next_", names_[i]), expected.next_obs[i]));
  }
  DING_RETURN_IF_ERROR(
      CompareNear("reward", batch.column<float>("reward")[index], expected.reward));
  DING_RETURN_IF_ERROR(
      CompareNear("discount", batch.column<float>("discount")[index], expected.discount));
  return CompareNear("n_step", batch.column<int32_t>("n_step")[index],
                     static_cast<double>(expected.n_step));
}

absl::Status ReferenceBuffer::Check(const Batch& batch) const {
  for (int64_t index = 0; index < batch.rows(); ++index) {
    const int64_t id = batch.column<int64_t>("replay_unique_id")[index];
    DING_RETURN_IF_ERROR(
        Annotate(CheckRow(batch, index), absl::StrCat("row ", index, " of the batch, id ", id)));
  }
  return absl::OkStatus();
}

void ReferenceSequences::Push(const SegmentBatch& data) {
  for (const Segment& segment : data.segments) {
    const auto newest = newest_.find(segment.stream);
    const bool known = newest != newest_.end();
    const bool goes_on = known && newest->second.next_step == segment.first_step;
    const bool ended = known && newest->second.ended;
    if (!known || (goes_on && ended)) first_rows_.insert(next_id_);
    if (!known || !goes_on || (ended && !options_.cross_episodes)) {
      if (known) runs_[newest->second.run].over = true;
      newest_[segment.stream].run = runs_.size();
      runs_.push_back({{}, /*whole=*/!known || goes_on, false, false});
    }
    Newest& at = newest_[segment.stream];
    at.next_step = segment.first_step + segment.length;
    at.ended = segment.end != SegmentEnd::kCut;
    for (int64_t i = 0; i < segment.length; ++i) runs_[at.run].ids.push_back(next_id_++);
    at.last_id = next_id_ - 1;
    if (at.ended && !options_.cross_episodes) runs_[at.run].over = runs_[at.run].ended = true;
  }
  begin_id_ = std::max(begin_id_, next_id_ - options_.capacity_rows);
  if (static_cast<int64_t>(newest_.size()) <= 2 * options_.capacity_rows) return;
  for (auto at = newest_.begin(); at != newest_.end();) {
    at = at->second.last_id < begin_id_ ? newest_.erase(at) : std::next(at);
  }
}

std::vector<std::vector<int64_t>> ReferenceSequences::All() const {
  std::vector<std::vector<int64_t>> sequences;
  for (const Run& run : runs_) {
    const auto rows = static_cast<int64_t>(run.ids.size());
    if (!options_.unroll_len.has_value()) {
      if (run.whole && run.ended && run.ids[0] >= begin_id_) sequences.push_back(run.ids);
      continue;
    }
    const int64_t wanted = *options_.unroll_len;
    const int64_t period = wanted - options_.overlap.value_or(wanted - 1);
    for (int64_t first = 0; first < rows; first += period) {
      if (run.ids[first] < begin_id_) continue;
      const int64_t last = std::min(first + wanted, rows);
      if (last - first < wanted && !(options_.padding && run.over)) continue;
      sequences.emplace_back(run.ids.begin() + first, run.ids.begin() + last);
    }
  }
  std::sort(sequences.begin(), sequences.end());
  return sequences;
}

}  // namespace ding
