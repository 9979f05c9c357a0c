#include "ding_worker/data/spec.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/checked_size.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr int64_t kMaxRowBytes = int64_t{1} << 40;
constexpr size_t kMaxPrintedBounds = 8;
// Far above every shape that a Spec accepts; as many elements of any type have a size in bytes that
// fits 64 bits.
constexpr int64_t kMaxElements = int64_t{1} << 59;

absl::Status CheckField(const FieldSpec& field) {
  if (field.name.empty()) return absl::InvalidArgumentError("a field has an empty name");
  const auto error = [&field](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("field '", field.name, "': ", parts...));
  };
  for (const int64_t extent : field.shape) {
    if (extent < 1) {
      return error("shape ", ShapeString(field.shape), " has an extent below 1");
    }
  }
  const std::optional<int64_t> bytes = CheckedByteSize(field.dtype, field.shape);
  if (!bytes.has_value() || *bytes > kMaxRowBytes) {
    return error("a row of ", DTypeName(field.dtype), ShapeString(field.shape), " is above ",
                 kMaxRowBytes, " bytes");
  }
  if (field.low.size() != field.high.size()) {
    return error(field.low.size(), " lower but ", field.high.size(), " upper bounds");
  }
  const size_t bounds = field.low.size();
  if (bounds > 1 && static_cast<int64_t>(bounds) != field.num_elements()) {
    return error(bounds, " bounds for ", field.num_elements(), " elements");
  }
  for (size_t i = 0; i < bounds; ++i) {
    if (!(field.low[i] <= field.high[i])) {
      return error("lower bound ", field.low[i], " is above upper bound ", field.high[i]);
    }
  }
  if (field.num_categories < 0) return error(field.num_categories, " categories");
  if (field.num_categories > 0 && field.dtype != DType::kInt64) {
    return error("discrete, and so must be int64, not ", DTypeName(field.dtype));
  }
  for (size_t i = 0; field.is_discrete() && i < bounds; ++i) {
    const double high = field.high[i];
    if (field.low[i] != 0 || high != std::floor(high) ||
        high >= static_cast<double>(field.num_categories)) {
      return error("categories in ", field.low[i], "..", high, ", expected 0..k with k below ",
                   field.num_categories);
    }
  }
  if (field.frame_stack_axis < -1 ||
      field.frame_stack_axis >= static_cast<int>(field.shape.size())) {
    return error("frame stack axis ", field.frame_stack_axis, " is not one of shape ",
                 ShapeString(field.shape));
  }
  return absl::OkStatus();
}

// Moves the bounds of a float32 action to the float32 values within them: the one that is nearest
// to 0.4 is above 0.4, and the env would get an action outside of its space. A bound beyond float32
// is none; one that would leave no value stays.
void RoundInward(FieldSpec* field) {
  if (field->dtype != DType::kFloat32) return;
  if (field->name != "action" && !absl::StartsWith(field->name, "action/")) return;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < field->low.size(); ++i) {
    auto low = static_cast<float>(field->low[i]);
    auto high = static_cast<float>(field->high[i]);
    if (low < field->low[i] && std::isfinite(low)) low = std::nextafter(low, kInfinity);
    if (high > field->high[i] && std::isfinite(high)) high = std::nextafter(high, -kInfinity);
    if (low > high) continue;
    field->low[i] = low;
    field->high[i] = high;
  }
}

// Returns the `index`-th category that `mask` allows; `index` must be below their number.
int64_t LegalCategory(absl::Span<const uint8_t> mask, uint64_t index) {
  size_t category = 0;
  while (mask[category] == 0 || index-- > 0) ++category;
  return static_cast<int64_t>(category);
}

}  // namespace

absl::string_view DTypeName(DType dtype) {
  // A switch, like those of other enums, and not a shared table: the compiler warns if a name is
  // missing.
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

int64_t NumElements(absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    const int64_t beyond = (count < 0) == (extent < 0) ? kMaxElements : -kMaxElements;
    count = std::clamp(CheckedProduct(count, extent).value_or(beyond), -kMaxElements, kMaxElements);
  }
  return count;
}

std::optional<int64_t> CheckedByteSize(DType dtype, absl::Span<const int64_t> shape) {
  std::optional<int64_t> bytes = SizeOf(dtype);
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    bytes = CheckedProduct(*bytes, extent);
    if (!bytes.has_value()) return std::nullopt;
  }
  return bytes;
}

std::string ShapeString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::string FieldSpec::DebugString() const {
  std::string text = absl::StrCat(DTypeName(dtype), ShapeString(shape));
  if (is_discrete() && high.size() > 1 && high.size() <= kMaxPrintedBounds) {
    absl::StrAppend(&text, " in 0..", absl::StrJoin(high, " 0.."));
  } else if (is_discrete()) {
    absl::StrAppend(&text, " in 0..", num_categories - 1);
  } else if (low.size() == 1) {
    absl::StrAppend(&text, " in [", low[0], ", ", high[0], "]");
  } else if (low.size() > kMaxPrintedBounds) {
    absl::StrAppend(&text, " in ", low.size(), " bounds");
  } else if (!low.empty()) {
    absl::StrAppend(&text, " in [", absl::StrJoin(low, " "), "] .. [", absl::StrJoin(high, " "),
                    "]");
  }
  return text;
}

int64_t FieldSpec::BoundedCategoryCount(int64_t element) const {
  const size_t bound = high.size() == 1 ? 0 : static_cast<size_t>(element);
  // All doubles below 2^63 fit into int64.
  if (bound < high.size() && high[bound] >= 0 && high[bound] < std::ldexp(1.0, 63)) {
    return static_cast<int64_t>(high[bound]) + 1;
  }
  throw std::invalid_argument(absl::StrCat("element ", element, " of field '", name, "' (",
                                           DebugString(), ") has no number of categories"));
}

bool operator==(const FieldSpec& a, const FieldSpec& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.low == b.low &&
         a.high == b.high && a.num_categories == b.num_categories &&
         a.frame_stack_axis == b.frame_stack_axis;
}

FieldSpec Box(absl::string_view name, Shape shape, std::vector<double> low,
              std::vector<double> high) {
  FieldSpec field;
  field.name = std::string(name);
  field.shape = std::move(shape);
  field.low = std::move(low);
  field.high = std::move(high);
  return field;
}

FieldSpec Discrete(absl::string_view name, int64_t num_categories) {
  FieldSpec field;
  field.name = std::string(name);
  field.dtype = DType::kInt64;
  field.num_categories = num_categories;
  return field;
}

FieldSpec MultiDiscrete(absl::string_view name, absl::Span<const int64_t> counts) {
  FieldSpec field = Discrete(name, 0);
  field.shape = {static_cast<int64_t>(counts.size())};
  field.low.assign(counts.size(), 0);
  for (const int64_t count : counts) {
    field.num_categories = std::max(field.num_categories, count);
    field.high.push_back(static_cast<double>(count) - 1);
  }
  return field;
}

FieldSpec Scalar(absl::string_view name, DType dtype) {
  FieldSpec field;
  field.name = std::string(name);
  field.dtype = dtype;
  return field;
}

absl::StatusOr<Spec> Spec::Create(std::vector<FieldSpec> fields) {
  Spec spec;
  for (FieldSpec& field : fields) {
    DING_RETURN_IF_ERROR(CheckField(field));
    RoundInward(&field);
    for (const FieldSpec& other : fields) {
      if (&other == &field) break;
      if (other.name == field.name) {
        return absl::InvalidArgumentError(absl::StrCat("field '", field.name, "' appears twice"));
      }
    }
    spec.layout_.push_back({field.row_bytes(), field.dtype});
  }
  spec.fields_ = std::move(fields);
  return spec;
}

void Spec::ThrowNoSuchField(int index) const {
  throw std::invalid_argument(
      absl::StrCat("there is no field ", index, ", only ", size(), " fields"));
}

int64_t Spec::row_bytes() const {
  int64_t bytes = 0;
  for (const FieldLayout& field : layout_) bytes += field.row_bytes;
  return bytes;
}

std::optional<int> Spec::Find(absl::string_view name) const {
  for (int i = 0; i < size(); ++i) {
    if (fields_[i].name == name) return i;
  }
  return std::nullopt;
}

absl::StatusOr<int> Spec::IndexOf(absl::string_view name, absl::string_view where) const {
  if (const std::optional<int> index = Find(name)) return *index;
  return absl::NotFoundError(absl::StrCat(
      where, " has no field '", name,
      "'; it has: ", absl::StrJoin(fields_, ", ", [](std::string* out, const FieldSpec& field) {
        out->append(field.name);
      })));
}

std::string Spec::DebugString() const {
  return absl::StrJoin(fields_, "\n", [](std::string* out, const FieldSpec& field) {
    absl::StrAppend(out, field.name, ": ", field.DebugString());
  });
}

bool operator==(const Spec& a, const Spec& b) { return a.fields() == b.fields(); }

absl::StatusOr<SpecPtr> MakeSpec(std::vector<FieldSpec> fields) {
  DING_ASSIGN_OR_RETURN(Spec spec, Spec::Create(std::move(fields)));
  return std::make_shared<const Spec>(std::move(spec));
}

absl::Status CheckFirstFields(const Spec& expected, const Spec& found, absl::string_view where) {
  for (int i = 0; i < expected.size(); ++i) {
    const FieldSpec& want = expected.field(i);
    if (i >= found.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": field '", want.name, "' is missing, expected ", want.DebugString()));
    }
    const FieldSpec& have = found.field(i);
    if (have.name != want.name) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": field ", i, " is '", have.name, "', expected '", want.name, "'"));
    }
    if (have.dtype != want.dtype || have.shape != want.shape ||
        have.num_categories != want.num_categories) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": field '", want.name, "' is ",
                                                     have.DebugString(), ", expected ",
                                                     want.DebugString()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSameLayout(const Spec& expected, const Spec& found, absl::string_view where) {
  absl::Status status = CheckFirstFields(expected, found, where);
  if (!status.ok()) return status;
  if (found.size() > expected.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": field '", found.field(expected.size()).name, "' is not expected"));
  }
  return absl::OkStatus();
}

absl::Status DrawCategories(const FieldSpec& field, absl::Span<const uint8_t> mask, Rng* rng,
                            absl::Span<int64_t> row) {
  size_t offset = 0;  // where the element's categories begin in the mask
  for (size_t i = 0; i < row.size(); ++i) {
    const auto count = static_cast<uint64_t>(field.CategoryCount(static_cast<int64_t>(i)));
    if (mask.empty()) {
      row[i] = static_cast<int64_t>(rng->UniformInt(count));
      continue;
    }
    const absl::Span<const uint8_t> categories = mask.subspan(offset, count);
    const auto illegal = std::count(categories.begin(), categories.end(), uint8_t{0});
    const uint64_t legal = count - static_cast<uint64_t>(illegal);
    if (legal == 0) {
      return absl::InvalidArgumentError(absl::StrCat("the action mask forbids all ", count,
                                                     " categories of '", field.name, "' element ",
                                                     i, ", expected at least one legal"));
    }
    row[i] = LegalCategory(categories, rng->UniformInt(legal));
    offset += count;
  }
  return absl::OkStatus();
}

}  // namespace ding
