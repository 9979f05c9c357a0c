#include "ding_worker/replay_buffer/selection/sequence_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {
namespace {

// Draws items (data/items.h) of which each stands for a whole episode, whose rows lie elsewhere.
// EpisodeReplayBuffer draws in this way if it is pushed items.
//
//     capacity_rows 10    items   6  3  4  2  1        the lengths of episodes, the oldest first
//                                    [---------]       the newest with at most 10 rows: these are
//                                                      candidates
//
// Older items leave the store when others are pushed; an item of more than `capacity_rows` rows is
// never a candidate.
class EpisodeItemSource : public RowSource {
 public:
  // `store` may hold items already.
  //   kInvalidArgument  these are no items, or have an impossible length; errors of
  //                     TransitionReader::Create()
  static absl::StatusOr<std::unique_ptr<EpisodeItemSource>> Create(int64_t capacity_rows,
                                                                   int64_t nstep, double gamma,
                                                                   std::shared_ptr<RowStore> store);

  absl::Status Check(const SegmentBatch& data) const override;
  void Append(const SegmentBatch& data, int64_t first_id) override;
  void Clear() override;
  std::string WhyNoCandidates() const override;
  std::vector<int64_t> Lengths() const override;

 private:
  EpisodeItemSource(int64_t capacity_rows, std::shared_ptr<TransitionReader> reader)
      : RowSource(std::move(reader)), capacity_rows_(capacity_rows) {}
  // Counts the newest items of the store, which have these lengths.
  void Add(absl::Span<const int64_t> lengths);

  const int64_t capacity_rows_;
  std::deque<int64_t> lengths_;  // of the items in the store
  int64_t rows_ = 0;             // their sum
  int64_t longest_ = 0;          // of all that were pushed
};

absl::Status CheckLengths(absl::Span<const int64_t> lengths) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("item ", i, " of ", lengths.size(),
                                                   " is an episode of ", lengths[i],
                                                   " rows, expected at least 1"));
  }
  return absl::OkStatus();
}

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

// With padding and repetitions a batch may have more rows than there are; more than this is a slip.
constexpr int64_t kMaxRowsOfABatch = kMaxCapacityRows;

absl::Status CheckBatch(int64_t sequences, int64_t rows) {
  if (sequences <= kMaxRowsOfABatch / rows) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a batch of ", sequences, " sequences of ", rows,
                                                   " rows, expected at most ", kMaxRowsOfABatch,
                                                   " rows"));
}

}  // namespace

SequenceSource::SequenceSource(const SequenceDrawOptions& options,
                               std::shared_ptr<TransitionReader> reader)
    : DrawSource(std::move(reader)),
      options_(options),
      mask_(FieldOf(kColumnMask)),
      burn_in_(FieldOf(kColumnBurnIn)),
      is_first_(options.index.cross_episodes ? FieldOf(kColumnIsFirst) : -1),
      sequences_(options.index, store().capacity_rows()) {}

absl::StatusOr<std::unique_ptr<SequenceSource>> SequenceSource::Create(
    const SequenceDrawOptions& options, std::shared_ptr<RowStore> store) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<TransitionReader> reader,
                        MakeReader(options, std::move(store)));
  return std::unique_ptr<SequenceSource>(new SequenceSource(options, std::move(reader)));
}

absl::StatusOr<std::shared_ptr<TransitionReader>> SequenceSource::MakeReader(
    const SequenceDrawOptions& options, std::shared_ptr<RowStore> store,
    std::vector<FieldSpec> added) {
  if (IsItems(*store->spec())) {
    return absl::InvalidArgumentError(
        "the rows are items (chunk, row, length), expected rows with their data: sequences are "
        "made of steps that follow each other here");
  }
  if (options.index.rows.value_or(1) > store->capacity_rows()) {
    return absl::InvalidArgumentError(absl::StrCat("unroll_len is ", *options.index.rows,
                                                   ", but replay_buffer_bytes holds ",
                                                   store->capacity_rows(), " rows"));
  }
  added.push_back(Scalar(kColumnMask, DType::kBool));
  added.push_back(Scalar(kColumnBurnIn, DType::kBool));
  if (options.index.cross_episodes) added.push_back(Scalar(kColumnIsFirst, DType::kBool));
  return TransitionReader::Create(std::move(store), options.nstep, options.gamma, added);
}

absl::Status SequenceSource::Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) {
  if (request.sequence.has_value() && *request.sequence > options_.index.rows.value_or(0) &&
      *request.sequence > sequences_.longest_run()) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences of ", *request.sequence,
                     " rows are asked for (SampleOptions::sequence), expected at most ",
                     sequences_.longest_run(), ", the rows of the longest run of one ",
                     options_.index.cross_episodes ? "stream" : "episode", " so far"));
  }
  starts_.resize(static_cast<size_t>(request.size));
  DING_RETURN_IF_ERROR(Select(request, absl::MakeSpan(starts_)));
  int64_t rows = request.sequence.value_or(options_.index.rows.value_or(1));
  if (!options_.index.rows.has_value()) {
    for (const int64_t start : starts_) rows = std::max(rows, LengthFrom(start));
  }
  DING_RETURN_IF_ERROR(CheckBatch(request.size, rows));
  DING_RETURN_IF_ERROR(reader().Start(request.size * rows, draw));
  Fill(starts_, &**draw);
  if (options_.index.cross_episodes) FillIsFirst(&**draw);
  return absl::OkStatus();
}

bool SequenceSource::RanksToIds(absl::Span<int64_t> ranks) const {
  if (!InRange(ranks, size())) return false;
  for (int64_t& rank : ranks) rank = sequences_.Select(rank);
  return true;
}

// Rows of the sequence that begins there.
int64_t SequenceSource::LengthFrom(int64_t id) const {
  const int64_t most = options_.index.rows.value_or(std::numeric_limits<int64_t>::max());
  int64_t length = 1;
  const RowStore& store = this->store();
  while (length < most && (id = sequences_.NextRow(store, id)) >= 0) ++length;
  return length;
}

std::string SequenceSource::WhyNoCandidates() const {
  const SequenceIndex::Options& index = options_.index;
  const int64_t longest = sequences_.longest_run();
  // Longer runs have lost their first rows, or no row of them begins a sequence.
  if (!index.rows.has_value() || longest >= *index.rows) return "";
  const absl::string_view within = index.cross_episodes ? "stream" : "episode";
  if (index.padding) {
    return absl::StrCat("; the longest run of rows of one ", within, " so far has ", longest,
                        ", and is padded once ",
                        index.cross_episodes ? "its stream has lost steps" : "its episode is over");
  }
  return absl::StrCat("; the longest run of rows of one ", within, " so far has ", longest,
                      "; if no longer one comes, set ",
                      index.cross_episodes ? "" : "cross_episodes or ",
                      "padding, or a smaller unroll_len");
}

std::vector<int64_t> SequenceSource::Lengths() const {
  std::vector<int64_t> lengths;
  for (int64_t rank = 0; rank < size(); ++rank)
    lengths.push_back(LengthFrom(sequences_.Select(rank)));
  return lengths;
}

void SequenceSource::Fill(absl::Span<const int64_t> starts, TransitionDraw* draw) const {
  const RowStore& store = this->store();
  const absl::Span<uint8_t> mask = draw->column<uint8_t>(mask_);
  const absl::Span<uint8_t> burn_in = draw->column<uint8_t>(burn_in_);
  const absl::Span<int64_t> ids = draw->ids();
  const size_t rows = ids.size() / starts.size();
  const int64_t burn_in_rows = options_.burn_in;
  for (size_t sequence = 0; sequence < starts.size(); ++sequence) {
    int64_t id = starts[sequence];
    bool there = true;
    for (size_t t = 0; t < rows; ++t) {
      const size_t row = sequence * rows + t;
      ids[row] = id;
      mask[row] = there;
      burn_in[row] = static_cast<int64_t>(t) < burn_in_rows;
      if (!there) continue;
      const int64_t next = sequences_.NextRow(store, id);
      there = next >= 0;
      if (there) id = next;
    }
  }
}

// After Fill().
void SequenceSource::FillIsFirst(TransitionDraw* draw) const {
  const absl::Span<const int64_t> ids = draw->ids();
  const absl::Span<const uint8_t> mask = draw->column<uint8_t>(mask_);
  const absl::Span<uint8_t> is_first = draw->column<uint8_t>(is_first_);
  for (size_t row = 0; row < ids.size(); ++row) {
    is_first[row] = mask[row] != 0 && sequences_.BeginsEpisode(ids[row]);
  }
}

StateSnapshot SequenceSource::Snapshot() const {
  return [sequences = sequences_.Snapshot(store())](StateWriter* writer) {
    ScopedStateWriter sequences_writer(writer, "sequences");
    return sequences(&sequences_writer);
  };
}

absl::Status SequenceSource::Load(StateReader* reader) {
  ScopedStateReader sequences_reader(reader, "sequences");
  return sequences_.Load(&sequences_reader, store());
}

absl::string_view SequenceDraws::state_type() const {
  // Across episodes there is more in a state.
  return options_.index.cross_episodes ? "sequence with cross_episodes" : "sequence";
}

absl::StatusOr<std::unique_ptr<DrawSource>> SequenceDraws::MakeSource(
    std::shared_ptr<RowStore> store) {
  if (!options_.index.rows.has_value() && IsItems(*store->spec())) {
    return EpisodeItemSource::Create(options_.item_rows, options_.nstep, options_.gamma,
                                     std::move(store));
  }
  return SequenceSource::Create(options_, std::move(store));
}

std::string SequenceDraws::candidates() const {
  return options_.index.rows.has_value()
             ? absl::StrCat("sequences of ", *options_.index.rows, " rows")
             : "whole episodes";
}

absl::Status SequenceDraws::CheckSequence(int64_t rows) const {
  if (!options_.index.rows.has_value()) return DrawKind::CheckSequence(rows);
  if (rows > options_.burn_in) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "sequences of ", rows, " rows are asked for (SampleOptions::sequence), expected at least ",
      options_.burn_in + 1, ": more than burn_in, which is ", options_.burn_in));
}

absl::Status SequenceDraws::CheckSize(int64_t size, std::optional<int64_t> sequence) const {
  return CheckBatch(size, sequence.value_or(options_.index.rows.value_or(1)));
}

absl::StatusOr<bool> SequenceDraws::HasPriorities(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t version, reader->ReadInt("version"));
  return version == kVersionWithPriorities;
}

absl::Status SequenceDraws::CheckSaved(StateReader* reader) const {
  DING_RETURN_IF_ERROR(CheckSavedType(reader, state_type()));
  DING_ASSIGN_OR_RETURN(const int64_t version, reader->ReadInt("version"));
  // A buffer with priorities can load sequences without.
  if (version == kVersionWithoutPriorities) return absl::OkStatus();
  if (version == kVersionWithPriorities && state_version() != version) {
    return absl::InvalidArgumentError(
        "the saved sequences have priorities, expected none because priority is not set");
  }
  return CheckSavedVersion(reader, kVersionWithPriorities);
}

StateSnapshot SequenceDraws::Snapshot() const {
  return [index = options_.index](StateWriter* writer) -> absl::Status {
    DING_RETURN_IF_ERROR(writer->WriteInt("unroll_len", index.rows.value_or(0)));
    DING_RETURN_IF_ERROR(writer->WriteInt("period", index.period));
    return writer->WriteInt("padding", index.padding);
  };
}

absl::StatusOr<std::function<void()>> SequenceDraws::Read(StateReader* reader) {
  DING_RETURN_IF_ERROR(CheckSavedInt(reader, "unroll_len", options_.index.rows.value_or(0)));
  DING_RETURN_IF_ERROR(CheckSavedInt(reader, "period", options_.index.period));
  DING_RETURN_IF_ERROR(CheckSavedInt(reader, "padding", options_.index.padding));
  return DrawKind::Read(reader);
}

}  // namespace ding
