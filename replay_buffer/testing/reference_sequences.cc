#include "ding_worker/replay_buffer/testing/reference_sequences.h"

#include <algorithm>
#include <iterator>

namespace ding {

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
