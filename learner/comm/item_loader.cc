#include "ding_worker/learner/comm/item_loader.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/segment_wire.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/transition.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/learner/comm/chunk_cache.h"

namespace ding {
namespace {

std::vector<std::string> Problems(const ItemLoaderOptions& options) {
  std::vector<std::string> problems;
  const auto expect = [&problems](bool holds, absl::string_view name, auto value,
                                  absl::string_view expected) {
    if (!holds) problems.push_back(absl::StrCat(name, " is ", value, ", expected ", expected));
  };
  expect(options.nstep >= 1, "nstep", options.nstep, "at least 1");
  expect(options.gamma >= 0 && options.gamma <= 1, "gamma", options.gamma, "0 to 1");
  expect(options.cache_bytes >= 0, "cache_bytes", options.cache_bytes, "at least 0");
  expect(options.cache_rows >= 1, "cache_rows", options.cache_rows, "at least 1");
  const ItemSequences& sequences = options.sequences;
  expect(sequences.length >= 1, "sequences.length", sequences.length, "at least 1");
  expect(sequences.burn_in >= 0 && sequences.burn_in < std::max<int64_t>(1, sequences.length),
         "sequences.burn_in", sequences.burn_in, "at least 0 and below sequences.length");
  expect(options.attempts >= 1, "attempts", options.attempts, "at least 1");
  return problems;
}

bool IsPlace(absl::string_view column) {
  return column == kColumnChunk || column == kColumnRow || column == kColumnLength;
}

absl::Status CheckDrawnItems(const Batch& items, const ItemSequences& sequences) {
  DING_RETURN_IF_ERROR(CheckItemFields(items.spec()));
  if (items.sequence_length() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("items are drawn as sequences of ", items.sequence_length(),
                     ", expected single items: a sequence with missing rows would not be noticed"));
  }
  const absl::StatusOr<int> id = items.spec().IndexOf(kColumnReplayUniqueId, "drawn items");
  if (!id.ok()) return absl::InvalidArgumentError(id.status().message());
  const absl::Span<const int64_t> first = items.column<int64_t>(kColumnRow);
  const absl::Span<const int64_t> length = items.column<int64_t>(kColumnLength);
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] >= 0 && sequences.Allows(length[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("item ", i, " of ", first.size(), " is ", length[i], " rows from row ",
                     first[i], " on, expected ", sequences.AllowedRows(), ", row 0 or later"));
  }
  return absl::OkStatus();
}

const Segment& SegmentOf(const DecodedChunk& chunk, int64_t row) {
  const auto segment = static_cast<size_t>(chunk.segment_of_row[static_cast<size_t>(row)]);
  return chunk.data.segments[segment];
}

// The rows of the segment from `row` on.
int64_t RowsLeft(const DecodedChunk& chunk, int64_t row) {
  const Segment& segment = SegmentOf(chunk, row);
  return segment.begin + segment.length - row;
}

absl::Status NoWholeEpisode(size_t item, const Item& place, const Segment& segment) {
  return absl::InvalidArgumentError(
      absl::StrCat("item ", item, " is ", place.length, " rows from row ", place.row,
                   " on of chunk ", place.chunk, " ('", ChunkKey(place.chunk),
                   "'), whose segment has ", segment.length, " rows from row ", segment.begin,
                   " on and ends ", segment.end == SegmentEnd::kCut ? "within" : "with",
                   " its episode: expected a whole episode"));
}

absl::Status OutsideOfSegment(size_t item, int64_t chunk, int64_t rows, int64_t row, int64_t left) {
  return absl::InvalidArgumentError(
      absl::StrCat("item ", item, " is ", rows, " rows from row ", row, " on of chunk ", chunk,
                   " ('", ChunkKey(chunk), "'), whose segment has only ", left, " from there on"));
}

absl::Status OutsideOfChunk(size_t item, int64_t chunk, int64_t row, int64_t rows) {
  return absl::InvalidArgumentError(absl::StrCat("item ", item, " is row ", row, " of chunk ",
                                                 chunk, " ('", ChunkKey(chunk), "'), which has ",
                                                 rows, " rows"));
}

// Whether a chunk can never be read, as far as it depends on itself.
bool IsUnusable(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

void AddUnusable(int64_t chunk, const absl::Status& why, LoadedItems* loaded) {
  if (loaded->why_missing.ok()) loaded->why_missing = why;
  const bool known = std::any_of(loaded->unusable.begin(), loaded->unusable.end(),
                                 [chunk](const auto& unusable) { return unusable.chunk == chunk; });
  if (!known) loaded->unusable.push_back({chunk, why});
}

// `expected`: of the same layout, with the categories that exist.
absl::Status CheckValues(const Batch& rows, const Spec& expected) {
  for (int i = 0; i < expected.size(); ++i) {
    const FieldSpec& field = expected.field(i);
    const auto wrong = [&](size_t at, const auto& value) {
      return absl::InvalidArgumentError(absl::StrCat(
          "column '", field.name, "', row ", static_cast<int64_t>(at) / field.num_elements(),
          " holds ", value,
          field.is_discrete() ? ", expected one of its categories" : ", expected a finite number"));
    };
    if (field.dtype == DType::kFloat32) {
      const absl::Span<const float> values = rows.column<float>(i);
      if (AllFinite(values)) continue;
      const auto at = static_cast<size_t>(FindNonFinite(values));
      return wrong(at, values[at]);
    }
    if (!field.is_discrete()) continue;
    const absl::Span<const int64_t> values = rows.column<int64_t>(i);
    const int64_t elements = field.num_elements();
    for (size_t at = 0; at < values.size(); ++at) {
      const int64_t count = field.CategoryCount(static_cast<int64_t>(at) % elements);
      if (values[at] < 0 || values[at] >= count) return wrong(at, values[at]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

// The loader, behind a pointer: its header is for users.
class ItemLoader::Impl {
 public:
  Impl(Store* store, const ItemLoaderOptions& options)
      : store_(store), options_(options), cache_(options.cache_bytes, options.cache_rows) {}

  absl::StatusOr<LoadedItems> Load(const Batch& items) {
    DING_RETURN_IF_ERROR(CheckDrawnItems(items, options_.sequences));
    const absl::Span<const int64_t> chunk = items.column<int64_t>(kColumnChunk);
    const absl::Span<const int64_t> row = items.column<int64_t>(kColumnRow);
    const absl::Span<const int64_t> length = items.column<int64_t>(kColumnLength);
    LoadedItems loaded;
    std::vector<ChunkPtr> chunks;
    DING_RETURN_IF_ERROR(FindChunks(chunk, &chunks, &loaded));
    std::vector<Sequence> sequences;
    sequences.reserve(chunks.size());
    std::shared_ptr<Layout> layout;
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i] == nullptr) continue;
      const absl::Status place = CheckPlace(*chunks[i], i, {chunk[i], row[i], length[i]});
      if (!place.ok()) {
        AddUnusable(chunk[i], place, &loaded);
        continue;
      }
      const SegmentBatch& data = chunks[i]->data;
      if (layout == nullptr) {
        DING_ASSIGN_OR_RETURN(layout, LayoutFor(data, items.spec_ptr()));
      }
      const absl::Status fits = CheckChunk(data, *layout);
      if (fits.ok()) {
        sequences.push_back({chunks[i].get(), row[i], length[i], static_cast<int64_t>(i)});
        loaded.found.push_back(static_cast<int64_t>(i));
      } else {
        AddUnusable(chunk[i], Annotate(fits, absl::StrCat("chunk '", ChunkKey(chunk[i]), "'")),
                    &loaded);
      }
    }
    loaded.missing = items.rows() - static_cast<int64_t>(sequences.size());
    if (sequences.empty()) return loaded;
    const int64_t rows = LengthOf(sequences);
    DING_ASSIGN_OR_RETURN(loaded.batch,
                          Gather(items, SourcesOf(sequences, rows), rows, layout.get()));
    return loaded;
  }
  int64_t cached_bytes() const { return cache_.bytes(); }
  std::optional<PendingRead> pending_read() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (reads_.empty()) return std::nullopt;
    const auto& [chunk, since] = reads_.begin()->second;
    return PendingRead{chunk, since.Elapsed()};
  }

 private:
  // The layout that the first chunk and the first items fix.
  struct Layout {
    Layout(const SegmentBatch& chunk, SpecPtr items, TransitionLayout transitions)
        : rows(chunk.rows.spec_ptr(), /*max_free_blocks=*/0),
          final_obs(chunk.final_obs.spec_ptr(), /*max_free_blocks=*/0),
          items(std::move(items)),
          transitions(std::move(transitions)),
          batches(this->transitions.spec) {}

    // They keep no block: one that is used again may be far larger than the chunk, which stays in
    // the cache for long.
    BlockPool rows;
    BlockPool final_obs;
    const SpecPtr items;
    const TransitionLayout transitions;
    BlockPool batches;
  };
  using ChunkPtr = ChunkCache::ChunkPtr;
  // Where a row of an item is that is not missing.
  struct Source {
    const DecodedChunk* chunk;
    int64_t row;
    int64_t item;
    bool is_padding;
  };
  // Where the rows of such an item are.
  struct Sequence {
    const DecodedChunk* chunk;
    int64_t row;
    int64_t rows;
    int64_t item;
  };

  // Finds the chunks in the cache or the store. Entries of `found` that are null are missing.
  absl::Status FindChunks(absl::Span<const int64_t> chunks, std::vector<ChunkPtr>* found,
                          LoadedItems* loaded) {
    found->resize(chunks.size());
    cache_.Find(chunks, absl::MakeSpan(*found));
    int pauses = options_.attempts - 1;
    absl::Status gone;  // the store, after all pauses
    absl::flat_hash_map<int64_t, ChunkPtr> read;
    for (size_t i = 0; i < chunks.size(); ++i) {
      ChunkPtr& chunk = (*found)[i];
      if (chunk != nullptr) continue;
      const auto [place, is_new] = read.try_emplace(chunks[i]);
      if (is_new) {
        absl::StatusOr<ChunkPtr> made =
            gone.ok() ? ReadChunk(chunks[i], &pauses) : absl::StatusOr<ChunkPtr>(gone);
        if (absl::IsUnavailable(made.status())) gone = made.status();
        if (made.ok()) {
          place->second = *std::move(made);
          cache_.Insert(chunks[i], place->second);
        } else if (IsUnusable(made.status())) {
          AddUnusable(chunks[i], made.status(), loaded);
        } else if (!absl::IsUnavailable(made.status())) {
          return made.status();
        } else if (loaded->why_missing.ok()) {
          loaded->why_missing = made.status();
        }
      }
      chunk = place->second;
    }
    return absl::OkStatus();
  }
  // Reads a chunk. `*pauses` is how many pauses may still be made.
  absl::StatusOr<ChunkPtr> ReadChunk(int64_t chunk, int* pauses) {
    std::shared_ptr<Layout> layout;
    std::string bytes;
    int64_t read = 0;
    {
      MutexLock lock(&mutex_);
      layout = layout_;
      if (!scratch_.empty()) {
        bytes = std::move(scratch_.back());
        scratch_.pop_back();
      }
      read = ++reads_begun_;
      reads_.emplace(read, std::make_pair(chunk, Timer(Clock::Real())));
    }
    const auto giver = absl::MakeCleanup([this, read, &bytes] {
      MutexLock lock(&mutex_);
      reads_.erase(read);
      scratch_.push_back(std::move(bytes));
    });
    DING_RETURN_IF_ERROR(GetBytes(chunk, pauses, &bytes));
    absl::StatusOr<SegmentBatch> data =
        layout == nullptr ? DecodeSegments(bytes)
                          : DecodeSegments(bytes, &layout->rows, &layout->final_obs);
    absl::Status status = data.status();
    if (status.ok()) status = CheckRows(*data);
    if (!status.ok()) return Annotate(status, absl::StrCat("chunk '", ChunkKey(chunk), "'"));
    if (options_.on_chunk != nullptr) options_.on_chunk(chunk, bytes);
    return std::make_shared<const DecodedChunk>(*std::move(data));
  }
  absl::Status GetBytes(int64_t chunk, int* pauses, std::string* bytes) const {
    for (;;) {
      const absl::Status status = store_->Get(ChunkKey(chunk), bytes);
      if (!absl::IsUnavailable(status) || *pauses == 0) return status;
      --*pauses;
      options_.sleep(options_.pause);
    }
  }
  absl::StatusOr<std::shared_ptr<Layout>> LayoutFor(const SegmentBatch& chunk, const SpecPtr& items)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (layout_ != nullptr) {
      DING_RETURN_IF_ERROR(CheckSameLayout(*layout_->items, *items, "items"));
      return layout_;
    }
    std::vector<FieldSpec> added;
    for (const FieldSpec& field : items->fields()) {
      if (IsPlace(field.name) || IsOfRows(field.name, chunk.rows.spec())) continue;
      if (field.name != kColumnReplayUniqueId) added.push_back(field);
    }
    if (adds_masks()) {
      added.push_back(Scalar(kColumnMask, DType::kBool));
      added.push_back(Scalar(kColumnBurnIn, DType::kBool));
    }
    DING_ASSIGN_OR_RETURN(
        TransitionLayout transitions,
        MakeTransitionLayout(chunk.rows.spec(), chunk.final_obs.spec().size(), added));
    layout_ = std::make_shared<Layout>(chunk, items, std::move(transitions));
    return layout_;
  }
  bool adds_masks() const { return !options_.sequences.single_rows() && !options_.concatenates; }
  // Whether the batch gets this column of the rows although items have it, too: an item of several
  // rows has only the collect_iter of the first one.
  bool IsOfRows(absl::string_view column, const Spec& rows) const {
    return column == kColumnCollectIter && !options_.sequences.single_rows() &&
           rows.Find(column).has_value();
  }
  static absl::Status CheckChunk(const SegmentBatch& chunk, const Layout& layout) {
    // Those that were decoded after the first have the specs of the pools.
    if (chunk.rows.spec_ptr() == layout.rows.spec() &&
        chunk.final_obs.spec_ptr() == layout.final_obs.spec()) {
      return absl::OkStatus();
    }
    DING_RETURN_IF_ERROR(
        CheckSameLayout(*layout.rows.spec(), chunk.rows.spec(), "rows of a chunk"));
    return CheckSameLayout(*layout.final_obs.spec(), chunk.final_obs.spec(),
                           "final_obs of a chunk");
  }
  // Checks the values, and the layout if the options name one.
  absl::Status CheckRows(const SegmentBatch& chunk) const {
    if (options_.rows == nullptr) return CheckValues(chunk.rows, chunk.rows.spec());
    DING_RETURN_IF_ERROR(CheckSameLayout(*options_.rows, chunk.rows.spec(), "rows"));
    DING_RETURN_IF_ERROR(CheckSameLayout(*options_.final_obs, chunk.final_obs.spec(), "final_obs"));
    DING_RETURN_IF_ERROR(CheckValues(chunk.rows, *options_.rows));
    return CheckValues(chunk.final_obs, *options_.final_obs);
  }
  // Checks that the chunk has the rows of an item.
  absl::Status CheckPlace(const DecodedChunk& chunk, size_t item, const Item& place) const {
    const SegmentBatch& data = chunk.data;
    if (place.row >= data.size()) {
      return OutsideOfChunk(item, place.chunk, place.row, data.size());
    }
    const int64_t left = RowsLeft(chunk, place.row);
    if (place.length > left) {
      return OutsideOfSegment(item, place.chunk, place.length, place.row, left);
    }
    if (!options_.sequences.whole_episodes) return absl::OkStatus();
    const Segment& segment = SegmentOf(chunk, place.row);
    const bool is_whole = segment.begin == place.row && segment.length == place.length &&
                          segment.end != SegmentEnd::kCut;
    return is_whole ? absl::OkStatus() : NoWholeEpisode(item, place, segment);
  }
  // The number of rows of each sequence of a batch, padding included.
  int64_t LengthOf(const std::vector<Sequence>& sequences) const {
    if (options_.concatenates) return 1;
    if (!options_.sequences.whole_episodes) return options_.sequences.length;
    int64_t longest = 1;
    for (const Sequence& sequence : sequences) longest = std::max(longest, sequence.rows);
    return longest;
  }
  // Returns `length` rows of each sequence, or all of them one after the other.
  std::vector<Source> SourcesOf(const std::vector<Sequence>& sequences, int64_t length) const {
    std::vector<Source> sources;
    sources.reserve(sequences.size() * static_cast<size_t>(length));
    for (const Sequence& sequence : sequences) {
      const int64_t rows = options_.concatenates ? sequence.rows : length;
      for (int64_t t = 0; t < rows; ++t) {
        sources.push_back({sequence.chunk, sequence.row + std::min(t, sequence.rows - 1),
                           sequence.item, /*is_padding=*/t >= sequence.rows});
      }
    }
    return sources;
  }
  absl::StatusOr<Batch> Gather(const Batch& items, const std::vector<Source>& sources,
                               int64_t length, Layout* layout) const {
    const TransitionLayout& to = layout->transitions;
    DING_ASSIGN_OR_RETURN(BatchBuilder block,
                          layout->batches.Allocate(static_cast<int64_t>(sources.size())));
    const absl::Span<float> reward = block.column<float>(to.reward);
    const auto components = static_cast<size_t>(to.spec->field(to.reward).num_elements());
    const absl::Span<float> discount = block.column<float>(to.discount);
    const absl::Span<int32_t> n_step = block.column<int32_t>(to.n_step);
    std::vector<RowPlace> places;
    std::vector<RowPlace> next_obs;
    places.reserve(sources.size());
    next_obs.reserve(sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      const DecodedChunk& chunk = *sources[i].chunk;
      const int64_t row = sources[i].row;
      const int64_t segment_index = chunk.segment_of_row[static_cast<size_t>(row)];
      const Segment& segment = chunk.data.segments[static_cast<size_t>(segment_index)];
      const int64_t rows_left = RowsLeft(chunk, row);
      const auto* const rewards =
          reinterpret_cast<const float*>(chunk.columns[static_cast<size_t>(to.reward)]) +
          static_cast<size_t>(row) * components;
      const NStepReturn ret = ComputeNStepReturns(
          {rewards, static_cast<size_t>(rows_left) * components}, segment.end, options_.nstep,
          options_.gamma, reward.subspan(i * components, components));
      discount[i] = ret.bootstrap_discount;
      n_step[i] = static_cast<int32_t>(ret.steps);
      places.push_back({chunk.columns.data(), row});
      if (ret.steps < rows_left) {
        next_obs.push_back({chunk.columns.data(), row + ret.steps});
      } else {
        next_obs.push_back({chunk.columns.data() + to.first_next_obs, segment_index});
      }
    }
    const Spec& spec = *to.spec;
    const MutableColumnsView view = block.view();
    for (const int field : to.stored) {
      if (field == to.reward) continue;
      GatherColumn(places, field, spec.row_bytes(field), view.raw_column(field));
    }
    for (int field = 0; field < to.discount - to.first_next_obs; ++field) {
      GatherColumn(next_obs, field, spec.row_bytes(field),
                   view.raw_column(to.first_next_obs + field));
    }
    GatherItemColumns(items, sources, view);
    if (adds_masks()) FillSequenceColumns(sources, length, to, &block);
    return std::move(block).Seal(static_cast<int64_t>(sources.size())).AsSequences(length);
  }
  void FillSequenceColumns(const std::vector<Source>& sources, int64_t length,
                           const TransitionLayout& layout, BatchBuilder* block) const {
    const absl::Span<uint8_t> mask = block->column<uint8_t>(*layout.spec->Find(kColumnMask));
    const absl::Span<uint8_t> burn_in = block->column<uint8_t>(*layout.spec->Find(kColumnBurnIn));
    const auto burn_in_rows = static_cast<size_t>(options_.sequences.burn_in);
    // Collectors of on-policy policies pad their samples themselves.
    const std::optional<int> of_rows =
        sources.empty() ? std::nullopt : sources[0].chunk->data.rows.spec().Find(kColumnMask);
    for (size_t i = 0; i < sources.size(); ++i) {
      mask[i] = !sources[i].is_padding;
      if (of_rows.has_value()) {
        mask[i] &= sources[i].chunk->data.rows.column<uint8_t>(
            *of_rows)[static_cast<size_t>(sources[i].row)];
      }
      burn_in[i] = i % static_cast<size_t>(length) < burn_in_rows;
    }
  }
  // `sources` must not be empty.
  void GatherItemColumns(const Batch& items, const std::vector<Source>& sources,
                         const MutableColumnsView& to) const {
    std::vector<const std::byte*> columns;
    for (int i = 0; i < items.spec().size(); ++i) columns.push_back(items.view().raw_column(i));
    std::vector<RowPlace> places;
    places.reserve(sources.size());
    for (const Source& source : sources) places.push_back({columns.data(), source.item});
    for (int i = 0; i < items.spec().size(); ++i) {
      const std::string& name = items.spec().field(i).name;
      if (IsPlace(name) || IsOfRows(name, sources[0].chunk->data.rows.spec())) continue;
      const int field = *to.spec().Find(name);
      GatherColumn(places, i, items.spec().row_bytes(i), to.raw_column(field));
    }
  }

  Store* const store_;
  const ItemLoaderOptions options_;
  ChunkCache cache_;
  mutable Mutex mutex_;
  std::map<int64_t, std::pair<int64_t, Timer>> reads_
      ABSL_GUARDED_BY(mutex_);  // chunk and beginning, in the order of their beginning
  int64_t reads_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  // Null until the first chunk.
  std::shared_ptr<Layout> layout_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> scratch_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<ItemLoader>> ItemLoader::Create(Store* store,
                                                               const ItemLoaderOptions& options) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(options), "item loader"));
  return absl::WrapUnique(new ItemLoader(std::make_unique<Impl>(store, options)));
}

ItemLoader::ItemLoader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ItemLoader::~ItemLoader() = default;

absl::StatusOr<LoadedItems> ItemLoader::Load(const Batch& items) { return impl_->Load(items); }
int64_t ItemLoader::cached_bytes() const { return impl_->cached_bytes(); }
std::optional<PendingRead> ItemLoader::pending_read() const { return impl_->pending_read(); }

}  // namespace ding
