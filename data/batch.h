// Rows that own their memory. A Batch is a const, reference-counted view of B rows in a block; a
// BatchBuilder is the only writer of a block until it is sealed; a BlockPool lends blocks and
// reuses them.
//
// A block is one aligned allocation that holds every column of a Spec:
//
//     BlockPool ──Allocate──► BatchBuilder ──Seal──► Batch ──copy, Slice──► Batch ...
//         ▲                                                                  │ last reference gone
//         └──────────────────────────── block ◄──────────────────────────────┘
//
// Reusing blocks saves time: the page faults of a fresh block take 3.5 times as long as copying the
// rows into it.
//
// The columns of a block begin at multiples of 64 bytes; the columns of a slice need not.
//
// Ownership: a Batch, and every Tensor taken from it, keeps its block alive, also after the pool is
//            destroyed.
// Threads:   a Batch is immutable and therefore thread-safe; BlockPool is thread-safe; BatchBuilder
//            is thread-compatible.
// Errors:    accessors throw, as in data/columns.h. The other functions end the program for rows
//            that do not exist.
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
  // An empty batch, without fields or rows.
  Batch();

  const Spec& spec() const { return *block_->spec; }
  const SpecPtr& spec_ptr() const { return block_->spec; }
  int64_t rows() const { return rows_; }
  // T if the rows are sequences of T consecutive rows, with row t of sequence b at b * T + t; 1 if
  // they are single rows. It divides rows().
  int64_t sequence_length() const { return sequence_length_; }
  // Returns the same rows as sequences of `length` rows, which must divide rows().
  Batch AsSequences(int64_t length) const;
  bool empty() const { return rows_ == 0; }

  // Returns column `index`: [rows, ...shape] elements.
  template <typename T>
  absl::Span<const T> column(int index) const {
    return view().column<T>(index);
  }
  // Returns column `name`; throws std::invalid_argument if there is none. Hot code should look up
  // indices once.
  template <typename T>
  absl::Span<const T> column(absl::string_view name) const {
    return view().column<T>(RequireField(name));
  }
  // The view is valid as long as this Batch or a copy of it.
  ColumnsView view() const {
    return ColumnsView(block_->spec.get(), block_->columns.data(), first_row_, rows_);
  }
  // Returns rows [begin, begin + rows) as single rows, in the same block.
  Batch Slice(int64_t begin, int64_t rows) const;
  // Returns column `index` as a tensor [rows, ...shape] that keeps the block alive. Do not write to
  // it.
  Tensor tensor(int index) const;

 private:
  friend class BatchBuilder;
  Batch(std::shared_ptr<const internal_data::Block> block, int64_t first_row, int64_t rows)
      : block_(std::move(block)), first_row_(first_row), rows_(rows) {}
  int RequireField(absl::string_view name) const;

  std::shared_ptr<const internal_data::Block> block_;
  int64_t first_row_ = 0;
  int64_t rows_ = 0;
  int64_t sequence_length_ = 1;
};

class BatchBuilder {
 public:
  // Creates a builder with a block of its own, without a pool. kResourceExhausted if there is not
  // enough memory.
  static absl::StatusOr<BatchBuilder> Create(SpecPtr spec, int64_t capacity_rows);

  BatchBuilder(BatchBuilder&&) = default;
  BatchBuilder& operator=(BatchBuilder&&) = default;

  const Spec& spec() const { return *block_->spec; }
  int64_t capacity_rows() const { return block_->capacity_rows; }
  // Returns all rows of the block. Their content is undefined until written.
  MutableColumnsView view() const {
    return MutableColumnsView(block_->spec.get(), block_->columns.data(), 0, capacity_rows());
  }
  template <typename T>
  absl::Span<T> column(int index) const {
    return view().column<T>(index);
  }
  // Returns the first `rows` rows as an immutable batch. Afterwards the builder must not be used.
  Batch Seal(int64_t rows) &&;

 private:
  friend class BlockPool;
  explicit BatchBuilder(std::shared_ptr<internal_data::Block> block) : block_(std::move(block)) {}

  std::shared_ptr<internal_data::Block> block_;
};

class BlockPool {
 public:
  // Keeps at most `max_free_blocks` unused blocks of `spec` and frees further ones.
  explicit BlockPool(SpecPtr spec, int max_free_blocks = 8);

  const SpecPtr& spec() const { return spec_; }
  // Returns a builder with a block for at least `rows` rows. kResourceExhausted if there is not
  // enough memory; the message has the sizes.
  absl::StatusOr<BatchBuilder> Allocate(int64_t rows);
  // Returns the number of unused blocks in the pool.
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
// The place of a row: `columns` points to the beginning of each column, `row` counts from there.
struct RowPlace {
  const std::byte* const* columns = nullptr;
  int64_t row = 0;
};
// Copies column `column` of `rows`, which may be in different blocks, to consecutive rows at `to`.
// `row_bytes` is the size of one row of the column.
void GatherColumn(absl::Span<const RowPlace> rows, int column, int64_t row_bytes, std::byte* to);
// Copies all rows of `from` to `to` beginning at `to_begin`; layouts as for GatherRows.
void CopyRows(const ColumnsView& from, const MutableColumnsView& to, int64_t to_begin);

}  // namespace ding

#endif  // DING_WORKER_DATA_BATCH_H_
