#include "ding_worker/data/batch.h"

#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/checked_size.h"

namespace ding {
namespace {

using internal_data::Block;

constexpr int64_t kColumnAlignment = 64;

int64_t AlignUp(int64_t size) {
  return (size + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
}

absl::StatusOr<std::unique_ptr<Block>> MakeBlock(SpecPtr spec, int64_t rows) {
  if (spec == nullptr || rows < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a block of ", rows, " rows",
                                                   spec == nullptr ? " without a spec" : "",
                                                   ", expected a spec and at least 0 rows"));
  }
  // A size that overflows is reported like one that exceeds the memory.
  std::optional<int64_t> size = CheckedProduct(rows, spec->row_bytes());
  if (size.has_value()) size = CheckedSum(*size, kColumnAlignment * spec->size());
  auto block = std::make_unique<Block>();
  if (size.has_value()) block->storage = AllocateAligned(*size);
  if (block->storage == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: ", rows, " rows of ", spec->row_bytes(), " bytes"));
  }
  std::byte* column = block->storage.get();
  for (int i = 0; i < spec->size(); ++i) {
    block->columns.push_back(column);
    column += AlignUp(rows * spec->row_bytes(i));
  }
  block->capacity_rows = rows;
  block->spec = std::move(spec);
  return block;
}

// Copies `bytes` bytes. The sizes of narrow rows are constants, which the compiler turns into plain
// moves.
inline void CopyRow(std::byte* to, const std::byte* from, int64_t bytes) {
  switch (bytes) {
    case 1:
      std::memcpy(to, from, 1);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    default:
      std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

void CheckFits(const ColumnsView& from, int64_t rows, const MutableColumnsView& to,
               int64_t to_begin) {
  const int fields = from.spec().size();
  DING_CHECK(fields <= to.spec().size() && IsRange(to_begin, rows, to.rows()))
      << "copy of " << fields << " fields and " << rows << " rows to row " << to_begin << " of "
      << to.spec().size() << " fields of " << to.rows() << " rows";
  for (int field = 0; field < fields; ++field) {
    DING_CHECK(from.spec().row_bytes(field) == to.spec().row_bytes(field))
        << "copy of field " << from.spec().field(field).DebugString() << " to "
        << to.spec().field(field).DebugString();
  }
}

}  // namespace

Batch::Batch() {
  static const auto* const empty = new std::shared_ptr<const Block>([] {
    auto block = std::make_shared<Block>();
    block->spec = std::make_shared<const Spec>();
    return block;
  }());
  block_ = *empty;
}

int Batch::RequireField(absl::string_view name) const {
  if (const std::optional<int> found = spec().Find(name)) return *found;
  throw std::invalid_argument(std::string(spec().IndexOf(name, "batch").status().message()));
}

Batch Batch::AsSequences(int64_t length) const {
  DING_CHECK(length >= 1 && rows_ % length == 0) << rows_ << " rows as sequences of " << length;
  Batch sequences = *this;
  sequences.sequence_length_ = length;
  return sequences;
}

Batch Batch::Slice(int64_t begin, int64_t rows) const {
  DING_CHECK(IsRange(begin, rows, rows_))
      << "slice of " << rows << " rows from row " << begin << " of " << rows_ << " rows";
  return Batch(block_, first_row_ + begin, rows);
}

Tensor Batch::tensor(int index) const {
  const FieldSpec& field = spec().field(index);
  Shape shape = {rows_};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  return Tensor(field.dtype, std::move(shape), std::const_pointer_cast<Block>(block_),
                block_->columns[index] + first_row_ * spec().row_bytes(index));
}

absl::StatusOr<BatchBuilder> BatchBuilder::Create(SpecPtr spec, int64_t capacity_rows) {
  absl::StatusOr<std::unique_ptr<Block>> block = MakeBlock(std::move(spec), capacity_rows);
  if (!block.ok()) return block.status();
  return BatchBuilder(std::shared_ptr<Block>(*std::move(block)));
}

Batch BatchBuilder::Seal(int64_t rows) && {
  DING_CHECK(block_ != nullptr) << "a builder is sealed twice";
  DING_CHECK(rows >= 0 && rows <= capacity_rows())
      << "sealing " << rows << " of " << capacity_rows() << " rows";
  return Batch(std::move(block_), 0, rows);
}

// Lives on after the pool while blocks are in use: each block holds a reference.
struct BlockPool::FreeList {
  explicit FreeList(int max_free) : max_free(max_free) {}

  void Return(std::unique_ptr<Block> block) ABSL_LOCKS_EXCLUDED(mutex) {
    MutexLock lock(&mutex);
    if (static_cast<int>(blocks.size()) < max_free) {
      blocks.push_back(std::move(block));
      return;
    }
    // Drop the smallest block: a larger one serves every request that it could serve.
    for (std::unique_ptr<Block>& kept : blocks) {
      if (kept->capacity_rows < block->capacity_rows) std::swap(kept, block);
    }
  }

  std::unique_ptr<Block> Take(int64_t rows) ABSL_LOCKS_EXCLUDED(mutex) {
    MutexLock lock(&mutex);
    size_t best = blocks.size();
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i]->capacity_rows < rows) continue;
      if (best == blocks.size() || blocks[i]->capacity_rows < blocks[best]->capacity_rows) best = i;
    }
    if (best == blocks.size()) return nullptr;
    std::unique_ptr<Block> block = std::move(blocks[best]);
    blocks.erase(blocks.begin() + static_cast<int64_t>(best));
    return block;
  }

  const int max_free;
  mutable Mutex mutex;
  std::vector<std::unique_ptr<Block>> blocks ABSL_GUARDED_BY(mutex);
};

BlockPool::BlockPool(SpecPtr spec, int max_free_blocks)
    : spec_(std::move(spec)), free_list_(std::make_shared<FreeList>(max_free_blocks)) {}

absl::StatusOr<BatchBuilder> BlockPool::Allocate(int64_t rows) {
  std::unique_ptr<Block> block = rows < 0 ? nullptr : free_list_->Take(rows);
  if (block == nullptr) {
    absl::StatusOr<std::unique_ptr<Block>> made = MakeBlock(spec_, rows);
    if (!made.ok()) return made.status();
    block = *std::move(made);
  }
  return BatchBuilder(std::shared_ptr<Block>(block.release(), [list = free_list_](Block* returned) {
    list->Return(std::unique_ptr<Block>(returned));
  }));
}

int BlockPool::free_blocks() const {
  MutexLock lock(&free_list_->mutex);
  return static_cast<int>(free_list_->blocks.size());
}

void GatherRows(const ColumnsView& from, absl::Span<const int64_t> source_rows,
                const MutableColumnsView& to, int64_t to_begin) {
  CheckFits(from, static_cast<int64_t>(source_rows.size()), to, to_begin);
  for (const int64_t row : source_rows) {
    DING_CHECK(row >= 0 && row < from.rows()) << "copy of row " << row << " of " << from.rows();
  }
  for (int field = 0; field < from.spec().size(); ++field) {
    const int64_t bytes = from.spec().row_bytes(field);
    const std::byte* const source = from.raw_column(field);
    std::byte* target = to.raw_column(field) + to_begin * bytes;
    for (const int64_t row : source_rows) {
      CopyRow(target, source + row * bytes, bytes);
      target += bytes;
    }
  }
}

void GatherColumn(absl::Span<const RowPlace> rows, int column, int64_t row_bytes, std::byte* to) {
  for (const RowPlace& place : rows) {
    CopyRow(to, place.columns[column] + place.row * row_bytes, row_bytes);
    to += row_bytes;
  }
}

void CopyRows(const ColumnsView& from, const MutableColumnsView& to, int64_t to_begin) {
  CheckFits(from, from.rows(), to, to_begin);
  for (int field = 0; field < from.spec().size(); ++field) {
    const int64_t bytes = from.spec().row_bytes(field);
    std::memcpy(to.raw_column(field) + to_begin * bytes, from.raw_column(field),
                static_cast<size_t>(from.rows() * bytes));
  }
}

}  // namespace ding
