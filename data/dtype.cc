#include "ding_worker/data/dtype.h"

namespace ding {

absl::string_view DTypeName(DType dtype) {
  // A switch, like those of other enums, and not a shared table: the compiler warns if a name is missing.
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kUint8:
      return "uint8";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
  }
  return "unknown dtype";
}

std::optional<DType> ParseDType(absl::string_view name) {
  for (const DType dtype : {DType::kBool, DType::kUint8, DType::kInt32, DType::kInt64,
                            DType::kFloat32, DType::kFloat64}) {
    if (name == DTypeName(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace ding
