// Non-owning views of columns: envs, policies and buffers get rows in this form.
//
//   ColumnsView         rows x fields, read only
//   MutableColumnsView  rows x fields, writable
//   RowView, RowRef     one row, read only and writable
//
// All columns of a view are dense and row-major, so that a column [B, ...shape] is one span.
//
// Ownership: none; the function that returns or passes a view says how long it is valid.
// Threads:   views are values; two threads may write different rows.
// Errors:    asking for a field or row that does not exist, or for a column as another type than
//            its own, throws std::invalid_argument. This is a mistake of the caller. If a user's
//            env or policy throws it, the library turns the exception into a Status.
#ifndef DING_WORKER_DATA_COLUMNS_H_
#define DING_WORKER_DATA_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/base/optimization.h"
#include "absl/types/span.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/data/spec.h"

namespace ding {
namespace internal_data {

[[noreturn]] void ThrowWrongType(const Spec& spec, int field, DType asked);
[[noreturn]] void ThrowNoSuchRows(int64_t begin, int64_t count, int64_t rows);
// The spec of a view without fields.
const Spec* NoFields();
// Throws std::invalid_argument unless fields [first, first + fields.size()) of `spec` have the
// layout of `fields`.
void CheckFields(const Spec& spec, const Spec* fields, int first);

inline void CheckRows(int64_t begin, int64_t count, int64_t rows) {
  if (ABSL_PREDICT_FALSE(!IsRange(begin, count, rows))) ThrowNoSuchRows(begin, count, rows);
}

template <typename T>
inline void CheckType(const Spec& spec, int field) {
  if (ABSL_PREDICT_FALSE(!StoredAs<T>(spec.dtype(field)))) {
    ThrowWrongType(spec, field, kDTypeOf<T>);
  }
}

}  // namespace internal_data

// One row, read only.
class RowView {
 public:
  RowView(const Spec* spec, std::byte* const* columns, int64_t row)
      : spec_(spec), columns_(columns), row_(row) {}

  const Spec& spec() const { return *spec_; }
  // Returns the elements of field `index`, row-major.
  template <typename T>
  absl::Span<const T> field(int index) const {
    internal_data::CheckType<T>(*spec_, index);
    const int64_t bytes = spec_->row_bytes(index);
    return {reinterpret_cast<const T*>(columns_[index] + row_ * bytes), bytes / sizeof(T)};
  }
  // Returns the first element of field `index`, which is the only one of a scalar field.
  template <typename T>
  T scalar(int index) const {
    return *field<T>(index).data();  // No field is empty.
  }
  // Returns the spec().row_bytes(index) bytes of field `index`.
  const std::byte* raw_field(int index) const {
    const int64_t bytes = spec_->row_bytes(index);
    return columns_[index] + row_ * bytes;
  }

 private:
  const Spec* spec_;
  std::byte* const* columns_;
  int64_t row_;
};

// One row, writable.
class RowRef {
 public:
  RowRef(const Spec* spec, std::byte* const* columns, int64_t row)
      : spec_(spec), columns_(columns), row_(row) {}

  const Spec& spec() const { return *spec_; }
  template <typename T>
  absl::Span<T> field(int index) const {
    internal_data::CheckType<T>(*spec_, index);
    const int64_t bytes = spec_->row_bytes(index);
    return {reinterpret_cast<T*>(columns_[index] + row_ * bytes), bytes / sizeof(T)};
  }
  std::byte* raw_field(int index) const {
    const int64_t bytes = spec_->row_bytes(index);
    return columns_[index] + row_ * bytes;
  }
  operator RowView() const { return RowView(spec_, columns_, row_); }  // NOLINT: it is a view.

 private:
  const Spec* spec_;
  std::byte* const* columns_;
  int64_t row_;
};

// Copies a row to another one of the same layout.
inline void CopyRow(const RowView& from, const RowRef& to) {
  for (int i = 0; i < from.spec().size(); ++i) {
    std::memcpy(to.raw_field(i), from.raw_field(i), static_cast<size_t>(from.spec().row_bytes(i)));
  }
}

// Rows x fields, read only. `columns` points to one base pointer per field; row 0 of the view is
// row `first_row` of the columns.
class ColumnsView {
 public:
  ColumnsView() = default;
  ColumnsView(const Spec* spec, std::byte* const* columns, int64_t first_row, int64_t rows)
      : spec_(spec), columns_(columns), first_row_(first_row), rows_(rows) {}

  const Spec& spec() const { return *spec_; }
  int64_t rows() const { return rows_; }
  // Returns column `index`: [rows, ...shape] elements.
  template <typename T>
  absl::Span<const T> column(int index) const {
    internal_data::CheckType<T>(*spec_, index);
    return {reinterpret_cast<const T*>(raw_column(index)),
            static_cast<size_t>(rows_ * spec_->row_bytes(index)) / sizeof(T)};
  }
  const std::byte* raw_column(int index) const {
    const int64_t bytes = spec_->row_bytes(index);
    return columns_[index] + first_row_ * bytes;
  }
  RowView row(int64_t row) const {
    internal_data::CheckRows(row, 1, rows_);
    return RowView(spec_, columns_, first_row_ + row);
  }
  // Returns rows [begin, begin + rows).
  ColumnsView Slice(int64_t begin, int64_t rows) const {
    internal_data::CheckRows(begin, rows, rows_);
    return ColumnsView(spec_, columns_, first_row_ + begin, rows);
  }
  // Returns a view of spec->size() fields from field `first` on, with the names of `spec`, which
  // must outlive the view. The layouts must be equal; the names may differ.
  ColumnsView Fields(const Spec* spec, int first) const {
    internal_data::CheckFields(*spec_, spec, first);
    return ColumnsView(spec, columns_ + first, first_row_, rows_);
  }

 private:
  const Spec* spec_ = internal_data::NoFields();
  std::byte* const* columns_ = nullptr;
  int64_t first_row_ = 0;
  int64_t rows_ = 0;
};

class MutableColumnsView {
 public:
  MutableColumnsView() = default;
  MutableColumnsView(const Spec* spec, std::byte* const* columns, int64_t first_row, int64_t rows)
      : spec_(spec), columns_(columns), first_row_(first_row), rows_(rows) {}

  const Spec& spec() const { return *spec_; }
  int64_t rows() const { return rows_; }
  template <typename T>
  absl::Span<T> column(int index) const {
    internal_data::CheckType<T>(*spec_, index);
    return {reinterpret_cast<T*>(raw_column(index)),
            static_cast<size_t>(rows_ * spec_->row_bytes(index)) / sizeof(T)};
  }
  std::byte* raw_column(int index) const {
    const int64_t bytes = spec_->row_bytes(index);
    return columns_[index] + first_row_ * bytes;
  }
  RowRef row(int64_t row) const {
    internal_data::CheckRows(row, 1, rows_);
    return RowRef(spec_, columns_, first_row_ + row);
  }
  MutableColumnsView Slice(int64_t begin, int64_t rows) const {
    internal_data::CheckRows(begin, rows, rows_);
    return MutableColumnsView(spec_, columns_, first_row_ + begin, rows);
  }
  // As ColumnsView::Fields().
  MutableColumnsView Fields(const Spec* spec, int first) const {
    internal_data::CheckFields(*spec_, spec, first);
    return MutableColumnsView(spec, columns_ + first, first_row_, rows_);
  }
  operator ColumnsView() const {  // NOLINT: a mutable view is a view.
    return ColumnsView(spec_, columns_, first_row_, rows_);
  }

 private:
  const Spec* spec_ = internal_data::NoFields();
  std::byte* const* columns_ = nullptr;
  int64_t first_row_ = 0;
  int64_t rows_ = 0;
};

}  // namespace ding

#endif  // DING_WORKER_DATA_COLUMNS_H_
