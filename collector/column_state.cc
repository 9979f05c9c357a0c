#include "ding_worker/collector/column_state.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/spec.h"

namespace ding {

absl::Status WriteColumns(const ColumnsView& columns, absl::string_view scope,
                          StateWriter* writer) {
  for (int i = 0; i < columns.spec().size(); ++i) {
    const FieldSpec& field = columns.spec().field(i);
    Shape shape = {columns.rows()};
    shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    const absl::string_view bytes(
        reinterpret_cast<const char*>(columns.raw_column(i)),
        static_cast<size_t>(columns.rows() * columns.spec().row_bytes(i)));
    DING_RETURN_IF_ERROR(
        writer->Write(absl::StrCat(scope, "/", field.name), field.dtype, shape, {bytes}));
  }
  return absl::OkStatus();
}

absl::Status ReadColumns(absl::string_view scope, const MutableColumnsView& columns,
                         StateReader* reader) {
  for (int i = 0; i < columns.spec().size(); ++i) {
    const FieldSpec& field = columns.spec().field(i);
    const std::string name = absl::StrCat(scope, "/", field.name);
    Shape shape = {columns.rows()};
    shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    DING_ASSIGN_OR_RETURN(const TensorInfo info, reader->Info(name));
    if (info.dtype != field.dtype || info.shape != shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("saved '", name, "' is ", DTypeName(info.dtype), ShapeString(info.shape),
                       ", expected ", DTypeName(field.dtype), ShapeString(shape)));
    }
    const absl::Span<char> bytes(reinterpret_cast<char*>(columns.raw_column(i)),
                                 static_cast<size_t>(columns.rows() * columns.spec().row_bytes(i)));
    DING_RETURN_IF_ERROR(reader->Read(name, {bytes}));
  }
  return absl::OkStatus();
}

}  // namespace ding
