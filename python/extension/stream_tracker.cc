#include "ding_worker/python/extension/stream_tracker.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ding_worker/data/transition.h"

namespace ding {
namespace {

// Rows that are compared in one step.
constexpr int64_t kAtOnce = 64;

// Whether rows (row, row + count] are each the observation after the row before them.
bool Follow(const StreamTracker::Rows& rows, int64_t row, int64_t count) {
  for (size_t i = 0; i < rows.obs.size(); ++i) {
    const auto bytes = static_cast<size_t>(rows.obs_spec->row_bytes(static_cast<int>(i)));
    if (std::memcmp(rows.next_obs[i] + row * bytes, rows.obs[i] + (row + 1) * bytes,
                    count * bytes) != 0) {
      return false;
    }
  }
  return true;
}

void CopyNextObs(const StreamTracker::Rows& rows, int64_t row, std::string* out) {
  out->clear();
  for (size_t i = 0; i < rows.next_obs.size(); ++i) {
    const auto bytes = static_cast<size_t>(rows.obs_spec->row_bytes(static_cast<int>(i)));
    out->append(reinterpret_cast<const char*>(rows.next_obs[i]) + row * bytes, bytes);
  }
}

bool Equals(const StreamTracker::Rows& rows, int64_t row, const std::string& next_obs) {
  const char* expected = next_obs.data();
  for (size_t i = 0; i < rows.obs.size(); ++i) {
    const auto bytes = static_cast<size_t>(rows.obs_spec->row_bytes(static_cast<int>(i)));
    if (std::memcmp(rows.obs[i] + row * bytes, expected, bytes) != 0) return false;
    expected += bytes;
  }
  return true;
}

}  // namespace

absl::Status StreamTracker::Cut(const Rows& rows, std::vector<Segment>* segments,
                                std::vector<int64_t>* last_rows) {
  before_.clear();
  const auto size = static_cast<int64_t>(rows.ends.size());
  const auto stream_of = [&rows](int64_t row) {
    return rows.streams.empty() ? kTransitionStream : rows.streams[row];
  };
  for (int64_t row = 0; row < size;) {
    const int64_t stream = stream_of(row);
    if (tails_.size() >= kMaxStreams && !tails_.contains(stream)) {
      Undo();
      return absl::InvalidArgumentError(
          absl::StrCat("stream ", stream, " is one more than ", kMaxStreams,
                       ", expected the number of an env for each row, which an env keeps"));
    }
    Tail& tail = tails_[stream];
    // A step that is left out tells the buffer that the next row does not follow.
    int64_t step = tail.next_step + (tail.open && !Equals(rows, row, tail.next_obs) ? 1 : 0);
    before_.emplace_back(stream, std::exchange(tail, Tail()));
    // The segments of consecutive rows of one stream. `end` is the last row before the stream or
    // the episode ends.
    int64_t end = -1;
    while (row < size && stream_of(row) == stream) {
      if (end < row) {
        for (end = row; rows.ends[end] == SegmentEnd::kCut && end + 1 < size &&
                        stream_of(end + 1) == stream;) {
          ++end;
        }
      }
      int64_t last = row;
      const bool follows = last < end && Follow(rows, last, 1);
      while (follows && last < end) {
        const int64_t count = std::min(end - last, kAtOnce);
        if (!Follow(rows, last, count)) {
          while (Follow(rows, last, 1)) ++last;
          break;
        }
        last += count;
      }
      const int64_t length = last - row + 1;
      segments->push_back({stream, step, row, length, rows.ends[last]});
      last_rows->push_back(last);
      step += length;
      row = last + 1;
      if (rows.ends[last] == SegmentEnd::kCut && row < size && stream_of(row) == stream) ++step;
    }
    tail.next_step = step;
    tail.open = rows.ends[row - 1] == SegmentEnd::kCut;
    if (tail.open) CopyNextObs(rows, row - 1, &tail.next_obs);
  }
  return absl::OkStatus();
}

void StreamTracker::Undo() {
  // Backwards: a stream may have changed several times.
  for (; !before_.empty(); before_.pop_back()) {
    tails_[before_.back().first] = std::move(before_.back().second);
  }
}

void StreamTracker::Clear() {
  tails_.clear();
  before_.clear();
}

}  // namespace ding
