#include "ding_worker/replay_buffer/selection/episode_item_source.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"

namespace ding {
namespace {

absl::Status CheckLengths(absl::Span<const int64_t> lengths) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("item ", i, " of ", lengths.size(),
                                                   " is an episode of ", lengths[i],
                                                   " rows, expected at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<EpisodeItemSource>> EpisodeItemSource::Create(
    int64_t capacity_rows, int64_t nstep, double gamma, std::shared_ptr<RowStore> store) {
  DING_RETURN_IF_ERROR(CheckItemFields(*store->spec()));
  std::vector<RowLocation> items;
  for (int64_t id = store->begin_id(); id < store->end_id(); ++id) {
    items.push_back(store->Locate(id));
  }
  std::vector<int64_t> lengths(items.size());
  store->Gather(*store->spec()->Find(kColumnLength), items,
                reinterpret_cast<std::byte*>(lengths.data()));
  DING_RETURN_IF_ERROR(CheckLengths(lengths));
  DING_ASSIGN_OR_RETURN(std::shared_ptr<TransitionReader> reader,
                        TransitionReader::Create(std::move(store), nstep, gamma));
  auto source = absl::WrapUnique(new EpisodeItemSource(capacity_rows, std::move(reader)));
  source->Add(lengths);
  return source;
}

absl::Status EpisodeItemSource::Check(const SegmentBatch& data) const {
  return CheckLengths(data.rows.column<int64_t>(kColumnLength));
}

void EpisodeItemSource::Append(const SegmentBatch& data, int64_t /*first_id*/) {
  Add(data.rows.column<int64_t>(kColumnLength));
}

void EpisodeItemSource::Add(absl::Span<const int64_t> lengths) {
  for (const int64_t length : lengths) {
    longest_ = std::max(longest_, length);
    // One that is too long is as long as another: the sum cannot overflow.
    lengths_.push_back(std::min(length, capacity_rows_ + 1));
    rows_ += lengths_.back();
  }
  // The store may have evicted items by itself.
  while (rows_ > capacity_rows_ || static_cast<int64_t>(lengths_.size()) > store().size()) {
    rows_ -= lengths_.front();
    lengths_.pop_front();
  }
  store().EvictBefore(store().end_id() - static_cast<int64_t>(lengths_.size()));
}

void EpisodeItemSource::Clear() {
  lengths_.clear();
  rows_ = 0;
}

std::string EpisodeItemSource::WhyNoCandidates() const {
  if (longest_ <= capacity_rows_) return "";
  return absl::StrCat("; the longest episode so far has ", longest_,
                      " rows, expected at most as many as replay_buffer_size, which is ",
                      capacity_rows_);
}

std::vector<int64_t> EpisodeItemSource::Lengths() const {
  return {lengths_.begin(), lengths_.end()};
}

}  // namespace ding
