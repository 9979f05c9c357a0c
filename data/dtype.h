// Element types of tensors and columns.
#ifndef DING_WORKER_DATA_DTYPE_H_
#define DING_WORKER_DATA_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace ding {

// The values stand in files and on the wire: never renumber.
enum class DType : uint8_t {
  kBool = 0,  // stored as uint8_t, 0 or 1
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 3,
  kFloat32 = 4,
  kFloat64 = 5,
};

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return 1;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

constexpr bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// "bool", "uint8", "int32", "int64", "float32", "float64".
absl::string_view DTypeName(DType dtype);
std::optional<DType> ParseDType(absl::string_view name);

// Whether elements of `dtype` are held in memory as T. uint8_t reads bool and uint8.
template <typename T>
constexpr bool StoredAs(DType dtype);
template <>
constexpr bool StoredAs<uint8_t>(DType dtype) {
  return dtype == DType::kBool || dtype == DType::kUint8;
}
template <>
constexpr bool StoredAs<int32_t>(DType dtype) {
  return dtype == DType::kInt32;
}
template <>
constexpr bool StoredAs<int64_t>(DType dtype) {
  return dtype == DType::kInt64;
}
template <>
constexpr bool StoredAs<float>(DType dtype) {
  return dtype == DType::kFloat32;
}
template <>
constexpr bool StoredAs<double>(DType dtype) {
  return dtype == DType::kFloat64;
}

// The DType of a C++ element type (uint8_t is kUint8).
template <typename T>
inline constexpr DType kDTypeOf = DType::kUint8;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kInt64;
template <>
inline constexpr DType kDTypeOf<float> = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;

}  // namespace ding

#endif  // DING_WORKER_DATA_DTYPE_H_
