#include "ding_worker/data/saved_columns.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/wire.h"

namespace ding {

Shape ColumnShape(int64_t rows, const Shape& row) {
  Shape shape = {rows};
  shape.insert(shape.end(), row.begin(), row.end());
  return shape;
}

absl::Status SaveSpec(const SpecPtr& spec, absl::string_view name, StateWriter* writer) {
  DING_ASSIGN_OR_RETURN(BatchBuilder no_rows, BatchBuilder::Create(spec, 0));
  return writer->WriteString(name, EncodedBatch(std::move(no_rows).Seal(0)).ToString());
}

absl::StatusOr<SpecPtr> LoadSpec(absl::string_view name, StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::string bytes, reader->ReadString(name));
  const absl::StatusOr<Batch> no_rows = DecodeBatch(bytes);
  if (!no_rows.ok()) return Annotate(no_rows.status(), absl::StrCat("saved ", name));
  return no_rows->spec_ptr();
}

absl::Status CheckSavedColumn(const StateReader& reader, absl::string_view prefix,
                              const FieldSpec& field, const Shape& expected) {
  const std::string name = absl::StrCat(prefix, field.name);
  DING_ASSIGN_OR_RETURN(const TensorInfo info, reader.Info(name));
  if (info.dtype == field.dtype && info.shape == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("saved '", name, "' is ", DTypeName(info.dtype),
                                                 ShapeString(info.shape), ", expected ",
                                                 DTypeName(field.dtype), ShapeString(expected)));
}

absl::Status SaveColumns(const ColumnsView& columns, absl::string_view prefix,
                         StateWriter* writer) {
  const Spec& spec = columns.spec();
  for (int i = 0; i < spec.size(); ++i) {
    const FieldSpec& field = spec.field(i);
    const absl::string_view bytes(reinterpret_cast<const char*>(columns.raw_column(i)),
                                  static_cast<size_t>(columns.rows() * spec.row_bytes(i)));
    DING_RETURN_IF_ERROR(writer->Write(absl::StrCat(prefix, field.name), field.dtype,
                                       ColumnShape(columns.rows(), field.shape), {bytes}));
  }
  return absl::OkStatus();
}

absl::Status LoadColumns(absl::string_view prefix, const MutableColumnsView& columns,
                         StateReader* reader) {
  const Spec& spec = columns.spec();
  for (const FieldSpec& field : spec.fields()) {
    DING_RETURN_IF_ERROR(
        CheckSavedColumn(*reader, prefix, field, ColumnShape(columns.rows(), field.shape)));
  }
  for (int i = 0; i < spec.size(); ++i) {
    const absl::Span<char> bytes(reinterpret_cast<char*>(columns.raw_column(i)),
                                 static_cast<size_t>(columns.rows() * spec.row_bytes(i)));
    DING_RETURN_IF_ERROR(reader->Read(absl::StrCat(prefix, spec.field(i).name), {bytes}));
  }
  return absl::OkStatus();
}

}  // namespace ding
