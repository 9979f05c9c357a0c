// A Spec describes the fields of rows: their names, element types, shapes and legal values. Envs,
// policies, buffers and files agree on rows by a Spec; every module checks it once where data
// enters. DrawCategories() draws random legal values.
//
// Ownership: values; modules share one Spec through SpecPtr.
// Threads:   thread-safe: a Spec is immutable after creation.
//
// Example:
//   DING_ASSIGN_OR_RETURN(SpecPtr spec, MakeSpec({
//       Box("obs", {4}), Discrete("action", 2), Scalar("reward", DType::kFloat32)}));
#ifndef DING_WORKER_DATA_SPEC_H_
#define DING_WORKER_DATA_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/version.h"

namespace ding {

// Element types of tensors and columns. Files and messages contain these values: never renumber
// them.
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

// The DType of a C++ element type; kUint8 for uint8_t.
template <typename T>
inline constexpr DType kDTypeOf = internal_data::DTypeOf<T>::kValue;

// Whether elements of `dtype` are stored as T. Both bool and uint8 are stored as uint8_t.
template <typename T>
constexpr bool StoredAs(DType dtype) {
  return dtype == kDTypeOf<T> || (dtype == DType::kBool && kDTypeOf<T> == DType::kUint8);
}

// Extents, outermost first; {} is a scalar.
using Shape = absl::InlinedVector<int64_t, 4>;

// Product of the extents; 1 for a scalar.
int64_t NumElements(absl::Span<const int64_t> shape);
// Returns the bytes of an array of that shape; nullopt if an extent is negative or the product
// overflows. For shapes from a file or a peer.
std::optional<int64_t> CheckedByteSize(DType dtype, absl::Span<const int64_t> shape);
// "[4, 84, 84]".
std::string ShapeString(absl::Span<const int64_t> shape);

// The observation field that says which actions are legal: bool, one element per category of the
// discrete action (policy/action_space.h). Policies choose legal actions only; env managers refuse
// others.
inline constexpr absl::string_view kActionMaskField = "obs/action_mask";

struct FieldSpec {
  // Nested names with '/': "obs", "obs/camera", "obs/action_mask", "obs/<player>".
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;  // the shape of one row

  // Inclusive bounds of the values: empty (unbounded), one value for all elements, or one per
  // element (row-major). Both have the same length.
  std::vector<double> low;
  std::vector<double> high;
  // If above 0, elements are categories from 0 to num_categories - 1 (dtype int64). `high` may
  // limit single elements to fewer categories (`low` is then 0): see CategoryCount().
  int64_t num_categories = 0;
  // The axis along which a row stacks consecutive frames; -1: none. Buffers store each frame of a
  // stack once.
  int frame_stack_axis = -1;

  int64_t num_elements() const { return NumElements(shape); }
  int64_t row_bytes() const { return num_elements() * SizeOf(dtype); }
  bool is_discrete() const { return num_categories > 0; }
  // The number of categories of one element of a discrete field, row-major. Throws
  // std::invalid_argument if there is no such element, or if its bound is no category
  // (Spec::Create() refuses such bounds).
  int64_t CategoryCount(int64_t element) const {
    return high.empty() ? num_categories : BoundedCategoryCount(element);
  }

  // "float32[4]", "int64[] in 0..1", "int64[2] in 0..2 0..4".
  std::string DebugString() const;

 private:
  int64_t BoundedCategoryCount(int64_t element) const;
};

bool operator==(const FieldSpec& a, const FieldSpec& b);
inline bool operator!=(const FieldSpec& a, const FieldSpec& b) { return !(a == b); }

// Create fields of the usual kinds.
FieldSpec Box(absl::string_view name, Shape shape, std::vector<double> low = {},
              std::vector<double> high = {});                        // float32
FieldSpec Discrete(absl::string_view name, int64_t num_categories);  // int64 scalar
// int64 [counts.size()]; element i has counts[i] categories.
FieldSpec MultiDiscrete(absl::string_view name, absl::Span<const int64_t> counts);
FieldSpec Scalar(absl::string_view name, DType dtype);

class Spec {
 public:
  Spec() = default;
  //   kInvalidArgument  empty or repeated name, extent below 1, rows of more than 2^40 bytes,
  //                     bounds of a wrong length or low > high; for a discrete field: another
  //                     dtype than int64, `low` not 0, or `high` not a category
  static absl::StatusOr<Spec> Create(std::vector<FieldSpec> fields);

  int size() const { return static_cast<int>(layout_.size()); }
  // These three throw std::invalid_argument if there is no field `index`.
  const FieldSpec& field(int index) const { return fields_[Checked(index)]; }
  // Bytes of one row of field `index`.
  int64_t row_bytes(int index) const { return layout_[Checked(index)].row_bytes; }
  DType dtype(int index) const { return layout_[Checked(index)].dtype; }
  absl::Span<const FieldSpec> fields() const { return fields_; }
  // Bytes of one row of all fields.
  int64_t row_bytes() const;

  std::optional<int> Find(absl::string_view name) const;
  // Like Find(); kNotFound names the field, `where` and the existing fields.
  absl::StatusOr<int> IndexOf(absl::string_view name, absl::string_view where) const;

  // Returns one line per field.
  std::string DebugString() const;

 private:
  // The values that every access to a row needs, next to each other.
  struct FieldLayout {
    int64_t row_bytes;
    DType dtype;
  };

  size_t Checked(int index) const {
    const auto checked = static_cast<size_t>(index);  // A negative index is too large.
    if (ABSL_PREDICT_FALSE(checked >= layout_.size())) ThrowNoSuchField(index);
    return checked;
  }
  [[noreturn]] void ThrowNoSuchField(int index) const;

  std::vector<FieldSpec> fields_;
  std::vector<FieldLayout> layout_;
};

bool operator==(const Spec& a, const Spec& b);
inline bool operator!=(const Spec& a, const Spec& b) { return !(a == b); }

using SpecPtr = std::shared_ptr<const Spec>;

absl::StatusOr<SpecPtr> MakeSpec(std::vector<FieldSpec> fields);

// Checks that `found` has the fields of `expected`, in the same order with the same names, dtypes,
// shapes and num_categories; bounds may differ. kInvalidArgument names `where`, the first field
// that differs, what was found and what was expected.
absl::Status CheckSameLayout(const Spec& expected, const Spec& found, absl::string_view where);
// Like CheckSameLayout(), but `found` may have further fields after those of `expected`.
absl::Status CheckFirstFields(const Spec& expected, const Spec& found, absl::string_view where);

// Draws every element of one row of the discrete `field` uniformly from its legal categories, for
// random policies, random opponents and the conformance suite of envs.
//
// A mask has one element per category, 0 for an illegal one; an empty mask allows all. The
// categories of a field with several elements follow one another:
//
//     field  MultiDiscrete {2, 3}
//     mask   [1 1 | 0 1 1]          category 0 of element 1 is illegal
//
//   kInvalidArgument  an element has no legal category
absl::Status DrawCategories(const FieldSpec& field, absl::Span<const uint8_t> mask, Rng* rng,
                            absl::Span<int64_t> row);

}  // namespace ding

#endif  // DING_WORKER_DATA_SPEC_H_
