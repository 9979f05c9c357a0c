// Element types of tensors and columns.
#ifndef DING_WORKER_DATA_DTYPE_H_
#define DING_WORKER_DATA_DTYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "ding_worker/base/language.h"

namespace ding {

// Files and messages contain these values: never renumber them.
enum class DType : uint8_t {
  kBool = 0,  // stored as uint8_t, 0 or 1
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 3,
  kFloat32 = 4,
  kFloat64 = 5,
};

// The size of one element in bytes.
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

namespace internal_data {

// Other element types do not compile.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType kValue = DType::kUint8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType kValue = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType kValue = DType::kInt64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kFloat64;
};

}  // namespace internal_data

// The DType of a C++ element type; that of uint8_t is kUint8.
template <typename T>
inline constexpr DType kDTypeOf = internal_data::DTypeOf<T>::kValue;

// Whether elements of `dtype` are stored as T. Both bool and uint8 are stored as uint8_t.
template <typename T>
constexpr bool StoredAs(DType dtype) {
  return dtype == kDTypeOf<T> || (dtype == DType::kBool && kDTypeOf<T> == DType::kUint8);
}

}  // namespace ding

#endif  // DING_WORKER_DATA_DTYPE_H_
