// How TrajBuffer returns its ready rows: which ones it drops, the segments, and the observations
// after them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/traj_buffer.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/env/env_manager.h"

namespace ding {

void TrajBuffer::DropNewest(int64_t excess) {
  for (int64_t row = arena_.used - 1; excess > 0; --row) {
    if (!infos_[row].ready) continue;
    DropRow(row);
    sample_rows_[infos_[row].env_id] = 0;  // The next row comes after a gap.
    --excess;
  }
}

void TrajBuffer::DropOfLastEpisodes(int64_t excess) {
  for (int64_t last = arena_.used - 1; excess > 0; --last) {
    if (!infos_[last].ready || !Ended(last)) continue;
    int64_t first = last;
    int64_t length = 1;
    while (!BeginsSegment(first)) {
      first = infos_[first].prev;
      ++length;
    }
    for (int64_t row = first; excess > 0 && length > 0; --length, --excess) {
      const int64_t next = infos_[row].next;
      DropRow(row);
      row = next;
    }
  }
}

int64_t TrajBuffer::CountSamples(const Segment& segment) const {
  const auto begin = order_.begin() + segment.begin;
  return std::count_if(begin, begin + segment.length,
                       [this](int64_t row) { return infos_[row].ends_sample; });
}

std::vector<Segment> TrajBuffer::FindSegments() {
  std::vector<Segment> segments;
  segments.reserve(static_cast<size_t>(options_.env_num));
  order_.clear();
  taken_samples_.clear();
  for (int64_t first = 0; first < arena_.used; ++first) {
    if (!infos_[first].ready || !BeginsSegment(first)) continue;
    Segment segment;
    segment.stream = options_.stream_base + infos_[first].env_id * options_.stream_stride;
    segment.first_step = infos_[first].step;
    segment.begin = static_cast<int64_t>(order_.size());
    int64_t last = first;
    order_.push_back(first);
    for (int64_t next = infos_[last].next; next >= 0 && infos_[next].ready && Follows(next, last);
         next = infos_[last].next) {
      order_.push_back(next);
      last = next;
    }
    segment.length = static_cast<int64_t>(order_.size()) - segment.begin;
    segment.end = infos_[last].state == RowState::kTerminated  ? SegmentEnd::kTerminated
                  : infos_[last].state == RowState::kTruncated ? SegmentEnd::kTruncated
                                                               : SegmentEnd::kCut;
    segments.push_back(segment);
    taken_samples_.push_back(segment.length);
    if (options_.unroll_len > 1) taken_samples_.back() = CountSamples(segment);
  }
  return segments;
}

absl::StatusOr<Batch> TrajBuffer::FinalObs(const std::vector<Segment>& segments,
                                           const ReadyObs& now) {
  now_row_.assign(static_cast<size_t>(options_.env_num), -1);
  for (size_t i = 0; i < now.env_ids.size(); ++i)
    now_row_[now.env_ids[i]] = static_cast<int64_t>(i);
  DING_ASSIGN_OR_RETURN(BatchBuilder block,
                        finals_.pool->Allocate(static_cast<int64_t>(segments.size())));
  const MutableColumnsView to = block.view();
  const MutableColumnsView arena = arena_.block->view().Fields(layout_.observation.get(), 0);
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t last = order_[segments[i].begin + segments[i].length - 1];
    const RowInfo& info = infos_[last];
    const int64_t to_row = static_cast<int64_t>(i);
    if (Ended(last)) {
      GatherRows(finals_.block->view(), {info.final_row}, to, to_row);
    } else if (info.next >= 0 && Follows(info.next, last)) {
      GatherRows(arena, {info.next}, to, to_row);
    } else if (now_row_[info.env_id] >= 0) {
      GatherRows(now.obs, {now_row_[info.env_id]}, to, to_row);
    } else {
      return absl::InternalError(absl::StrCat("env ", info.env_id,
                                              " is in the middle of an episode, but the env "
                                              "manager has no observation of it"));
    }
  }
  return std::move(block).Seal(static_cast<int64_t>(segments.size()));
}

absl::StatusOr<Batch> TrajBuffer::TakeRows() {
  const int64_t rows = static_cast<int64_t>(order_.size());
  bool in_order = rows == arena_.used;
  for (int64_t i = 0; in_order && i < rows; ++i) in_order = order_[i] == i;
  if (in_order) {
    Batch batch = std::move(*arena_.block).Seal(rows);
    arena_.block.reset();
    return batch;
  }
  DING_ASSIGN_OR_RETURN(BatchBuilder block, arena_.pool->Allocate(rows));
  GatherRows(arena_.block->view(), order_, block.view(), 0);
  return std::move(block).Seal(rows);
}

absl::StatusOr<SegmentBatch> TrajBuffer::Take(int64_t max_rows, const ReadyObs& now) {
  if (max_rows < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("asked for at most ", max_rows, " rows, expected at least 0"));
  }
  if (ready_rows_ > max_rows) {
    const int64_t excess = ready_rows_ - max_rows;
    if (options_.whole_episodes) {
      DropOfLastEpisodes(excess);
    } else {
      DropNewest(excess);
    }
  }
  if (options_.cut_samples) std::fill(sample_rows_.begin(), sample_rows_.end(), 0);
  SegmentBatch data;
  if (ready_rows_ == 0) {
    taken_samples_.clear();
    if (dropped_rows_ > 0) DING_RETURN_IF_ERROR(KeepRows(/*also_ready=*/false));
    return data;
  }
  data.segments = FindSegments();
  DING_ASSIGN_OR_RETURN(data.final_obs, FinalObs(data.segments, now));
  DING_ASSIGN_OR_RETURN(data.rows, TakeRows());
  DING_RETURN_IF_ERROR(KeepRows(/*also_ready=*/false));
  return data;
}

}  // namespace ding
