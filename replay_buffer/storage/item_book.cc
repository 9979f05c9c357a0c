#include "ding_worker/replay_buffer/storage/item_book.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/spec.h"

namespace ding {

absl::StatusOr<std::unique_ptr<ItemBook>> ItemBook::Create(const RowStore& store) {
  const Spec& spec = *store.spec();
  if (!IsItems(spec)) {
    return absl::InvalidArgumentError(
        "on_removed is set, expected rows that are items (chunk, row, length)");
  }
  DING_RETURN_IF_ERROR(CheckItemFields(spec));
  std::vector<RowLocation> rows;
  for (int64_t id = store.begin_id(); id < store.end_id(); ++id) rows.push_back(store.Locate(id));
  const auto column = [&](absl::string_view name) {
    std::vector<int64_t> values(rows.size());
    store.Gather(*spec.Find(name), rows, reinterpret_cast<std::byte*>(values.data()));
    return values;
  };
  std::unique_ptr<ItemBook> held(new ItemBook(store.begin_id()));
  held->Add(column(kColumnChunk), column(kColumnRow), column(kColumnLength));
  return held;
}

void ItemBook::Add(absl::Span<const int64_t> chunks, absl::Span<const int64_t> rows,
                   absl::Span<const int64_t> lengths) {
  Reserve(chunks.size());
  size_t begin = 0;  // of the items of one chunk, which mostly follow each other
  for (size_t i = 0; i < chunks.size(); ++i) {
    At(end_++) = {chunks[i], rows[i], lengths[i]};
    if (i + 1 < chunks.size() && chunks[i + 1] == chunks[i]) continue;
    chunks_.Add(chunks[i], static_cast<int64_t>(i + 1 - begin));
    begin = i + 1;
  }
}

void ItemBook::Reserve(size_t items) {
  const size_t needed = static_cast<size_t>(end_ - begin_) + items;
  size_t size = std::max<size_t>(ring_.size(), 1);
  while (size < needed) size *= 2;
  if (size == ring_.size()) return;
  std::vector<Item> larger(size);
  for (int64_t id = begin_; id < end_; ++id) larger[static_cast<size_t>(id) & (size - 1)] = At(id);
  ring_ = std::move(larger);
}

void ItemBook::Append(const Batch& rows, int64_t begin, int64_t end, RemovedItems* removed) {
  DING_CHECK(end_ + rows.rows() == end)
      << rows.rows() << " rows after " << end_ << ", but the ring ends at " << end;
  // New items are added first, so that chunks which they refer to are not reported as removed.
  Add(rows.column<int64_t>(kColumnChunk), rows.column<int64_t>(kColumnRow),
      rows.column<int64_t>(kColumnLength));
  EvictBefore(begin, removed);
}

void ItemBook::Remove(int64_t begin, int64_t end, RemovedItems* removed) {
  int64_t chunk = 0;
  int64_t of_chunk = 0;
  const auto forget = [&] {
    if (of_chunk > 0 && chunks_.Remove(chunk, of_chunk)) removed->chunks.push_back(chunk);
    of_chunk = 0;
  };
  begin = std::max(begin, begin_);
  if (begin >= end) return;
  removed->items.reserve(removed->items.size() + static_cast<size_t>(end - begin));
  for (int64_t id = begin; id < end; ++id) {
    Item& item = At(id);
    if (item.length == kRemoved) continue;
    removed->items.push_back(item);
    item.length = kRemoved;
    if (item.chunk != chunk) forget();
    chunk = item.chunk;
    ++of_chunk;
  }
  forget();
}

void ItemBook::EvictBefore(int64_t id, RemovedItems* removed) {
  Remove(begin_, id, removed);
  begin_ = id;
}

}  // namespace ding
