#include "ding_worker/data/spec_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using Json = nlohmann::ordered_json;  // For a reader's eyes: members in this order.

bool AllSame(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

// The first `count` of the bounds.
Json BoundsToJson(const std::vector<double>& bounds, size_t count) {
  Json json = Json::array();
  for (size_t i = 0; i < count; ++i) {
    json.push_back(std::isfinite(bounds[i]) ? Json(bounds[i]) : Json(nullptr));
  }
  return json;
}

absl::Status FieldError(absl::string_view name, absl::string_view member,
                        absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("spec: '", member, "' of field '", name, "' is not ", expected));
}

// Reads the member `key`, if it is there, as bounds; `infinity` stands for null.
absl::Status ReadBounds(const Json& json, const char* key, double infinity, FieldSpec* field,
                        std::vector<double>* bounds) {
  const auto found = json.find(key);
  if (found == json.end()) return absl::OkStatus();
  if (!found->is_array()) return FieldError(field->name, key, "an array of numbers");
  for (const Json& bound : *found) {
    if (!bound.is_number() && !bound.is_null()) {
      return FieldError(field->name, key, "an array of numbers");
    }
    bounds->push_back(bound.is_null() ? infinity : bound.get<double>());
  }
  return absl::OkStatus();
}

// Reads the member `key`, or returns `missing`.
absl::StatusOr<int64_t> ReadInt(const Json& json, const char* key, int64_t missing,
                                absl::string_view field) {
  const auto found = json.find(key);
  if (found == json.end()) return missing;
  if (!found->is_number_integer()) return FieldError(field, key, "a whole number");
  return found->get<int64_t>();
}

absl::StatusOr<FieldSpec> FieldFromJson(const Json& json) {
  const auto text = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (!json.is_object()) return absl::InvalidArgumentError("spec: a field is not an object");
  FieldSpec field;
  field.name = text("name");
  if (field.name.empty()) return absl::InvalidArgumentError("spec: a field has no 'name'");
  const std::optional<DType> dtype = ParseDType(text("dtype"));
  if (!dtype.has_value()) return FieldError(field.name, "dtype", "one such as \"float32\"");
  field.dtype = *dtype;
  const auto shape = json.find("shape");
  if (shape == json.end() || !shape->is_array()) {
    return FieldError(field.name, "shape", "an array of extents");
  }
  for (const Json& extent : *shape) {
    if (!extent.is_number_integer()) return FieldError(field.name, "shape", "an array of extents");
    field.shape.push_back(extent.get<int64_t>());
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  DING_RETURN_IF_ERROR(ReadBounds(json, "low", -kInfinity, &field, &field.low));
  DING_RETURN_IF_ERROR(ReadBounds(json, "high", kInfinity, &field, &field.high));
  DING_ASSIGN_OR_RETURN(field.num_categories, ReadInt(json, "categories", 0, field.name));
  DING_ASSIGN_OR_RETURN(const int64_t axis, ReadInt(json, "frame_stack_axis", -1, field.name));
  field.frame_stack_axis = static_cast<int>(axis);
  return field;
}

}  // namespace

std::string SpecToJson(const Spec& spec) {
  Json json = Json::array();
  for (const FieldSpec& field : spec.fields()) {
    Json member;
    member["name"] = field.name;
    member["dtype"] = std::string(DTypeName(field.dtype));
    member["shape"] = std::vector<int64_t>(field.shape.begin(), field.shape.end());
    if (!field.low.empty()) {
      // Both lists have the same length.
      const size_t count = AllSame(field.low) && AllSame(field.high) ? 1 : field.low.size();
      member["low"] = BoundsToJson(field.low, count);
      member["high"] = BoundsToJson(field.high, count);
    }
    if (field.num_categories > 0) member["categories"] = field.num_categories;
    if (field.frame_stack_axis >= 0) member["frame_stack_axis"] = field.frame_stack_axis;
    json.push_back(std::move(member));
  }
  // A name that is not UTF-8 must not end the program.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<SpecPtr> SpecFromJson(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) {
    return absl::InvalidArgumentError("spec: the text is not a JSON array of fields");
  }
  std::vector<FieldSpec> fields;
  for (const Json& member : json) {
    DING_ASSIGN_OR_RETURN(FieldSpec field, FieldFromJson(member));
    fields.push_back(std::move(field));
  }
  return MakeSpec(std::move(fields));
}

}  // namespace ding
