#include "ding_worker/replay_buffer/selection/sequence_index.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/storage/row_store_state.h"

namespace ding {
namespace {

// The longest run that is accepted: no training run reaches it, and it is far from overflow.
constexpr int64_t kMaxRows = (int64_t{1} << 60) - 1;

SequenceIndex::Options Normalized(SequenceIndex::Options options) {
  if (!options.rows.has_value()) options.period = std::numeric_limits<int64_t>::max();
  return options;
}

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("saved sequences: ", what));
}

// Whether `ids` are in increasing order, at least `low` and below `high`.
bool AreIncreasing(absl::Span<const int64_t> ids, int64_t low, int64_t high) {
  for (const int64_t id : ids) {
    if (id < low || id >= high) return false;
    low = id + 1;
  }
  return true;
}

std::vector<int64_t> ValidOf(std::vector<int64_t> ids, int64_t begin_id) {
  ids.erase(
      std::remove_if(ids.begin(), ids.end(), [begin_id](int64_t id) { return id < begin_id; }),
      ids.end());
  return ids;
}

bool AllDifferent(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) == ids.end();
}

absl::Status Damaged(int64_t row, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("saved episodes: row ", row, " ", what));
}

}  // namespace

SequenceIndex::SequenceIndex(const Options& options, int64_t capacity_rows)
    : options_(Normalized(options)), capacity_rows_(capacity_rows), starts_(capacity_rows) {
  if (options_.cross_episodes) episodes_.emplace(capacity_rows);
}

void SequenceIndex::Append(absl::Span<const Segment> segments, int64_t first_id, int64_t begin_id) {
  starts_.EvictBefore(begin_id);
  added_.clear();
  for (const Segment& segment : segments) {
    Run& run = RunOf(segment, begin_id);
    const int64_t id = first_id + segment.begin;
    if (episodes_.has_value()) LinkEpisode(segment, id, begin_id, &run);
    for (int64_t i = 0; i < segment.length; ++i) AddRow(&run, id + i, begin_id);
    run.last_id = id + segment.length - 1;
    run.next_step = segment.first_step + segment.length;
    if (segment.end != SegmentEnd::kCut && !episodes_.has_value()) {
      EndRun(&run, /*with_the_episode=*/true, begin_id);
    }
  }
  ForgetStreams(begin_id);
}

void SequenceIndex::EvictBefore(int64_t begin_id) { starts_.EvictBefore(begin_id); }

// Returns the run that `segment` continues, or a new one.
SequenceIndex::Run& SequenceIndex::RunOf(const Segment& segment, int64_t begin_id) {
  const auto [it, is_new] = runs_.try_emplace(segment.stream);
  Run& run = it->second;
  if (!is_new && run.next_step != segment.first_step) {
    EndRun(&run, /*with_the_episode=*/false, begin_id);
    // The beginning of the episode may be lost: then the episode is never whole.
    if (!options_.rows.has_value()) run.rows = 1;
    run.at_beginning = false;
  }
  return run;
}

// Called before the rows of `segment`, whose first row is `id`, are added to `run`.
void SequenceIndex::LinkEpisode(const Segment& segment, int64_t id, int64_t begin_id, Run* run) {
  episodes_->Add(id, segment.length, run->at_beginning);
  if (run->at_beginning && run->rows > 0 && run->last_id >= begin_id) {
    episodes_->Link(run->last_id, id);
  }
  run->at_beginning = segment.end != SegmentEnd::kCut;
}

void SequenceIndex::AddRow(Run* run, int64_t id, int64_t begin_id) {
  if (run->rows % options_.period == 0) run->pending.push_back(id);
  ++run->rows;
  longest_run_ = std::max(longest_run_, run->rows);
  if (!options_.rows.has_value() || run->pending.empty()) return;
  const int64_t newest = (run->rows - 1) / options_.period * options_.period;
  const int64_t oldest = newest - (static_cast<int64_t>(run->pending.size()) - 1) * options_.period;
  if (oldest + *options_.rows > run->rows) return;
  AddSequence(run->pending.front(), begin_id);
  run->pending.pop_front();
}

void SequenceIndex::AddSequence(int64_t id, int64_t begin_id) {
  if (id < begin_id) return;
  starts_.Insert(id);
  if (options_.lists_added) added_.push_back(id);
}

void SequenceIndex::EndRun(Run* run, bool with_the_episode, int64_t begin_id) {
  if (options_.rows.has_value() ? options_.padding : with_the_episode) {
    for (const int64_t id : run->pending) AddSequence(id, begin_id);
  }
  run->pending.clear();
  run->rows = 0;
}

void SequenceIndex::ForgetStreams(int64_t begin_id) {
  if (static_cast<int64_t>(runs_.size()) <= 2 * capacity_rows_) return;
  absl::erase_if(runs_, [begin_id](const auto& run) { return run.second.last_id < begin_id; });
}

StateSnapshot SequenceIndex::Snapshot(const RowStore& store) const {
  std::vector<int64_t> starts(static_cast<size_t>(size()));
  for (int64_t rank = 0; rank < size(); ++rank) starts[rank] = Select(rank);
  std::vector<int64_t> streams;
  for (const auto& [stream, run] : runs_) streams.push_back(stream);
  std::sort(streams.begin(), streams.end());
  std::vector<int64_t> next_steps, last_ids, rows, pending_counts, pending, at_beginning;
  for (const int64_t stream : streams) {
    const Run& run = runs_.at(stream);
    next_steps.push_back(run.next_step);
    last_ids.push_back(run.last_id);
    rows.push_back(run.rows);
    at_beginning.push_back(run.at_beginning);
    const auto valid = std::lower_bound(run.pending.begin(), run.pending.end(), store.begin_id());
    pending_counts.push_back(run.pending.end() - valid);
    pending.insert(pending.end(), valid, run.pending.end());
  }
  StateSnapshot episodes;
  if (episodes_.has_value()) episodes = episodes_->Snapshot(store.begin_id(), store.end_id());
  return [starts = std::move(starts), streams = std::move(streams),
          next_steps = std::move(next_steps), last_ids = std::move(last_ids),
          rows = std::move(rows), pending_counts = std::move(pending_counts),
          pending = std::move(pending), at_beginning = std::move(at_beginning),
          episodes = std::move(episodes)](StateWriter* writer) {
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("starts", starts));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("streams", streams));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("next_steps", next_steps));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("last_ids", last_ids));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("run_rows", rows));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("pending_counts", pending_counts));
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("pending", pending));
    if (episodes == nullptr) return absl::OkStatus();
    DING_RETURN_IF_ERROR(writer->WriteSpan<int64_t>("at_beginning", at_beginning));
    ScopedStateWriter episodes_writer(writer, "episodes");
    return episodes(&episodes_writer);
  };
}

absl::Status SequenceIndex::Load(StateReader* reader, const RowStore& store) {
  const int64_t begin_id = store.begin_id();
  const int64_t end_id = store.end_id();
  DING_ASSIGN_OR_RETURN(const auto starts, ReadVector<int64_t>(reader, "starts"));
  DING_ASSIGN_OR_RETURN(const auto streams, ReadVector<int64_t>(reader, "streams"));
  DING_ASSIGN_OR_RETURN(const auto next_steps, ReadVector<int64_t>(reader, "next_steps"));
  DING_ASSIGN_OR_RETURN(const auto last_ids, ReadVector<int64_t>(reader, "last_ids"));
  DING_ASSIGN_OR_RETURN(const auto rows, ReadVector<int64_t>(reader, "run_rows"));
  DING_ASSIGN_OR_RETURN(const auto counts, ReadVector<int64_t>(reader, "pending_counts"));
  DING_ASSIGN_OR_RETURN(const auto pending, ReadVector<int64_t>(reader, "pending"));
  for (const auto* column : {&next_steps, &last_ids, &rows, &counts}) {
    if (column->size() != streams.size()) return Damaged("their columns differ in length");
  }
  std::vector<int64_t> at_beginning(streams.size(), 1);
  if (episodes_.has_value()) {
    DING_RETURN_IF_ERROR(reader->ReadSpan<int64_t>("at_beginning", absl::MakeSpan(at_beginning)));
    ScopedStateReader episodes_reader(reader, "episodes");
    DING_RETURN_IF_ERROR(episodes_->Load(&episodes_reader, store));
  }
  if (!AreIncreasing(starts, begin_id, end_id))
    return Damaged("first rows that are not in the buffer");
  auto left = static_cast<int64_t>(pending.size());
  auto from = pending.begin();
  starts_.EvictBefore(begin_id);
  for (size_t i = 0; i < streams.size(); ++i) {
    if (last_ids[i] < 0 || last_ids[i] >= end_id || rows[i] < 0 || rows[i] > kMaxRows ||
        counts[i] < 0 || counts[i] > left || counts[i] > rows[i] || at_beginning[i] < 0 ||
        at_beginning[i] > 1) {
      return Damaged(absl::StrCat("the run of stream ", streams[i], " is impossible"));
    }
    const Run run = {
        next_steps[i], last_ids[i], rows[i], {from, from + counts[i]}, at_beginning[i] == 1};
    if (episodes_.has_value() && !IsNewest(run, store)) {
      return Damaged(
          absl::StrCat("row ", run.last_id, " cannot be the newest of stream ", streams[i]));
    }
    if (!AreIncreasing(absl::MakeSpan(pending).subspan(from - pending.begin(), counts[i]), begin_id,
                       end_id)) {
      return Damaged(absl::StrCat("pending rows of stream ", streams[i], " are not in the buffer"));
    }
    from += counts[i];
    left -= counts[i];
    if (!runs_.try_emplace(streams[i], run).second) {
      return Damaged(absl::StrCat("stream ", streams[i], " comes twice"));
    }
  }
  if (left != 0) return Damaged("more pending rows than streams");
  if (episodes_.has_value() && !AllDifferent(ValidOf(last_ids, begin_id))) {
    return Damaged("a row is the newest of two streams");
  }
  std::vector<int64_t> first_rows = starts;
  first_rows.insert(first_rows.end(), pending.begin(), pending.end());
  if (!AllDifferent(std::move(first_rows))) return Damaged("a row begins two of them");
  for (const int64_t id : starts) starts_.Insert(id);
  longest_run_ = LongestRun(store);
  return absl::OkStatus();
}

// Returns the most consecutive rows of a stream in `store`.
int64_t SequenceIndex::LongestRun(const RowStore& store) const {
  std::vector<int64_t> rows_from(static_cast<size_t>(store.size()));  // of the run from each row on
  int64_t longest = 0;
  for (int64_t id = store.end_id() - 1; id >= store.begin_id(); --id) {
    const int64_t next = NextRow(store, id);
    int64_t& rows = rows_from[static_cast<size_t>(id - store.begin_id())];
    rows = 1 + (next < 0 ? 0 : rows_from[static_cast<size_t>(next - store.begin_id())]);
    longest = std::max(longest, rows);
  }
  return longest;
}

// For an index across episodes: whether the newest row of `run`, if it was not evicted, ended an
// episode or not as the run says, and no row follows it.
bool SequenceIndex::IsNewest(const Run& run, const RowStore& store) const {
  if (run.last_id < store.begin_id()) return true;
  const RowSuccessor next = store.Next(run.last_id);
  return next.id < 0 && episodes_->Next(run.last_id) < 0 &&
         run.at_beginning == (next.end != SegmentEnd::kCut);
}

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

RankedIds::RankedIds(int64_t capacity, int64_t begin) : begin_(begin) {
  DING_CHECK(capacity >= 1 && capacity <= int64_t{1} << 29) << "capacity of " << capacity << " ids";
  int64_t slots = 1;
  while (slots < capacity) slots *= 2;
  mask_ = slots - 1;
  tree_.resize(static_cast<size_t>(slots + 1));
}

void RankedIds::Add(int64_t slot, int32_t count) {
  size_ += count;
  for (int64_t node = slot + 1; node <= mask_ + 1; node += node & -node) tree_[node] += count;
}

int64_t RankedIds::CountBelow(int64_t slot) const {
  int64_t count = 0;
  for (int64_t node = slot; node > 0; node -= node & -node) count += tree_[node];
  return count;
}

void RankedIds::Insert(int64_t id) {
  DING_CHECK(id >= begin_ && id <= begin_ + mask_) << "id " << id << " of a range from " << begin_;
  Add(SlotOf(id), 1);
}

void RankedIds::EvictBefore(int64_t begin) {
  while (size_ > 0) {
    const int64_t smallest = Select(0);
    if (smallest >= begin) break;
    Add(SlotOf(smallest), -1);
  }
  begin_ = begin;
}

int64_t RankedIds::Select(int64_t rank) const {
  DING_CHECK(rank >= 0 && rank < size_) << "rank " << rank << " of " << size_;
  // In the order of ids, slots run from that of begin_ to the last, and then from 0 on.
  int64_t left = rank + CountBelow(SlotOf(begin_));
  if (left >= size_) left -= size_;
  int64_t slot = 0;
  for (int64_t step = mask_ + 1; step > 0; step /= 2) {
    if (slot + step > mask_ + 1 || tree_[slot + step] > left) continue;
    slot += step;
    left -= tree_[slot];
  }
  return begin_ + ((slot - SlotOf(begin_)) & mask_);
}

}  // namespace ding
