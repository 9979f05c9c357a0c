// Rows that own their memory: a Batch is a const, reference-counted view of B rows in a block; a
// BatchBuilder is the one writer of a block until it is sealed; a BlockPool hands blocks out and
// takes them back.
//
// A block is one aligned allocation that holds every column of a Spec:
//
//     BlockPool ──Allocate──► BatchBuilder ──Seal──► Batch ──copy, Slice──► Batch ...
//         ▲                                                                  │ last reference gone
//         └──────────────────────────── block ◄──────────────────────────────┘
//
// Reusing blocks matters: the page faults of a fresh block cost 3.5 times the copy itself.
//
// The columns of a block begin at multiples of 64 bytes; those of a slice do not.
//
// Ownership: a Batch (and every Tensor taken from it) keeps its block alive, also after its pool is
//            gone.
// Threads:   a Batch is immutable and so thread-safe; BlockPool is thread-safe; BatchBuilder is
//            thread-compatible.
#ifndef DING_WORKER_DATA_BATCH_H_
#define DING_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"

namespace ding {
namespace internal_data {

// One allocation; column i starts at columns[i].
struct Block {
  SpecPtr spec;
  int64_t capacity_rows = 0;
  std::shared_ptr<std::byte> storage;
  absl::InlinedVector<std::byte*, 12> columns;
};

}  // namespace internal_data

class Batch {
 public:
  // No fields, no rows.
  Batch();

  const Spec& spec() const { return *block_->spec; }
  const SpecPtr& spec_ptr() const { return block_->spec; }
  int64_t rows() const { return rows_; }
  bool empty() const { return rows_ == 0; }

  // Column `index`: [rows, ...shape] elements.
  template <typename T>
  absl::Span<const T> column(int index) const {
    return view().column<T>(index);
  }
  // Column `name`; throws std::invalid_argument if there is none. Look up indices once where it is
  // hot.
  template <typename T>
  absl::Span<const T> column(absl::string_view name) const {
    return view().column<T>(RequireField(name));
  }
  // Valid as long as this Batch or a copy of it.
  ColumnsView view() const {
    return ColumnsView(block_->spec.get(), block_->columns.data(), first_row_, rows_);
  }
  // Rows [begin, begin + rows), sharing the block.
  Batch Slice(int64_t begin, int64_t rows) const;
  // Column `index` as a tensor [rows, ...shape] that keeps the block alive. Not to be written.
  Tensor tensor(int index) const;

 private:
  friend class BatchBuilder;
  Batch(std::shared_ptr<const internal_data::Block> block, int64_t first_row, int64_t rows)
      : block_(std::move(block)), first_row_(first_row), rows_(rows) {}
  int RequireField(absl::string_view name) const;

  std::shared_ptr<const internal_data::Block> block_;
  int64_t first_row_ = 0;
  int64_t rows_ = 0;
};

class BatchBuilder {
 public:
  // A block of its own, without a pool. kResourceExhausted if there is not that much memory.
  static absl::StatusOr<BatchBuilder> Create(SpecPtr spec, int64_t capacity_rows);

  BatchBuilder(BatchBuilder&&) = default;
  BatchBuilder& operator=(BatchBuilder&&) = default;

  const Spec& spec() const { return *block_->spec; }
  int64_t capacity_rows() const { return block_->capacity_rows; }
  // All rows of the block; their content is undefined until written.
  MutableColumnsView view() const {
    return MutableColumnsView(block_->spec.get(), block_->columns.data(), 0, capacity_rows());
  }
  template <typename T>
  absl::Span<T> column(int index) const {
    return view().column<T>(index);
  }
  // The first `rows` rows as an immutable batch. The builder is used up.
  Batch Seal(int64_t rows) &&;

 private:
  friend class BlockPool;
  explicit BatchBuilder(std::shared_ptr<internal_data::Block> block) : block_(std::move(block)) {}

  std::shared_ptr<internal_data::Block> block_;
};

class BlockPool {
 public:
  // Keeps at most `max_free_blocks` unused blocks of `spec`; more go back to the system.
  explicit BlockPool(SpecPtr spec, int max_free_blocks = 8);

  const SpecPtr& spec() const { return spec_; }
  // A block for at least `rows` rows. kResourceExhausted, with the sizes, if there is not that much
  // memory.
  absl::StatusOr<BatchBuilder> Allocate(int64_t rows);
  // Blocks waiting to be used again.
  int free_blocks() const;

 private:
  struct FreeList;

  const SpecPtr spec_;
  const std::shared_ptr<FreeList> free_list_;
};

// Copies rows `source_rows` of `from` to rows [to_begin, to_begin + source_rows.size()) of `to`,
// field by field. The first from.spec().size() fields of `to` must have the layout of `from`.
void GatherRows(const ColumnsView& from, absl::Span<const int64_t> source_rows,
                const MutableColumnsView& to, int64_t to_begin);
// A row of some columns: `columns` points at the beginning of each.
struct RowPlace {
  const std::byte* const* columns = nullptr;
  int64_t row = 0;
};
// Copies column `column`, `row_bytes` a row, of rows that lie anywhere, to `to`, one after the
// other.
void GatherColumn(absl::Span<const RowPlace> rows, int column, int64_t row_bytes, std::byte* to);
// Copies all rows of `from` to `to` beginning at `to_begin`; layouts as for GatherRows.
void CopyRows(const ColumnsView& from, const MutableColumnsView& to, int64_t to_begin);

}  // namespace ding

#endif  // DING_WORKER_DATA_BATCH_H_
