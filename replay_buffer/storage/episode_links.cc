#include "ding_worker/replay_buffer/storage/episode_links.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/storage/read_vector.h"

namespace ding {
namespace {

absl::Status Damaged(int64_t row, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("saved episodes: row ", row, " ", what));
}

}  // namespace

EpisodeLinks::EpisodeLinks(int64_t capacity) {
  DING_CHECK(capacity >= 1 && capacity <= int64_t{1} << 29) << "capacity of " << capacity << " ids";
  int64_t marks = 1;
  while (marks < capacity) marks *= 2;
  mask_ = marks - 1;
  marks_.resize(static_cast<size_t>(marks));
}

void EpisodeLinks::Add(int64_t id, int64_t rows, bool begins) {
  // Marks are set in this order so that the later rows count if there are more rows than marks.
  MarkOf(id) = {begins, 0};
  for (int64_t i = 1; i < rows; ++i) MarkOf(id + i) = {0, 0};
}

void EpisodeLinks::Link(int64_t last, int64_t first) {
  DING_CHECK(last < first && first <= last + mask_) << "row " << first << " after row " << last;
  MarkOf(last).distance = static_cast<uint32_t>(first - last);
}

StateSnapshot EpisodeLinks::Snapshot(int64_t begin_id, int64_t end_id) const {
  std::vector<int64_t> begins, lasts, nexts;
  for (int64_t id = begin_id; id < end_id; ++id) {
    if (Begins(id)) begins.push_back(id);
    if (Next(id) < 0) continue;
    lasts.push_back(id);
    nexts.push_back(Next(id));
  }
  return [begins = std::move(begins), lasts = std::move(lasts),
          nexts = std::move(nexts)](StateWriter* writer) {
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("begins", begins));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("lasts", lasts));
    return writer->WriteSpan<int64_t>("nexts", nexts);
  };
}

absl::Status EpisodeLinks::Load(StateReader* reader, const RowStore& store) {
  DING_ASSIGN_OR_RETURN(const auto begins, ReadVector<int64_t>(reader, "begins"));
  DING_ASSIGN_OR_RETURN(const auto lasts, ReadVector<int64_t>(reader, "lasts"));
  std::vector<int64_t> nexts(lasts.size());
  DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("nexts", absl::MakeSpan(nexts)));
  int64_t low = store.begin_id();
  for (const int64_t id : begins) {
    if (id < low || id >= store.end_id())
      return Damaged(id, "begins an episode but is out of order or not in the buffer");
    MarkOf(id).begins = 1;
    low = id + 1;
  }
  for (int64_t id = store.begin_id(); id < store.end_id(); ++id) {
    const int64_t next = store.Next(id).id;
    if (next >= 0 && Begins(next))
      return Damaged(next, "begins an episode in the middle of another");
  }
  std::vector<bool> follows(static_cast<size_t>(store.size()));
  low = store.begin_id();
  for (size_t i = 0; i < lasts.size(); ++i) {
    const int64_t last = lasts[i];
    const int64_t next = nexts[i];
    if (last < low || last >= store.end_id())
      return Damaged(last, "ends an episode but is out of order or not in the buffer");
    if (store.Next(last).end == SegmentEnd::kCut) return Damaged(last, "does not end an episode");
    if (next <= last || next >= store.end_id() || !Begins(next) ||
        follows[next - store.begin_id()]) {
      return Damaged(last, absl::StrCat("cannot be followed by row ", next));
    }
    follows[next - store.begin_id()] = true;
    Link(last, next);
    low = last + 1;
  }
  return absl::OkStatus();
}

}  // namespace ding
