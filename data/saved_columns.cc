#include "ding_worker/data/saved_columns.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/dtype.h"
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

}  // namespace ding
