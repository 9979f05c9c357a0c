#include "ding_worker/base/params.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/ranges.pb.h"

namespace ding {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns the full name of the message in `any`; empty if `any` is empty.
absl::string_view MessageName(const google::protobuf::Any& any) {
  absl::string_view url = any.type_url();
  const size_t slash = url.rfind('/');
  if (slash != absl::string_view::npos) url.remove_prefix(slash + 1);
  return url;
}

// A number in a field, and how it is written.
struct Number {
  template <typename T>
  Number(T number)  // NOLINT: a number of each type is one
      : value(static_cast<double>(number)), text(absl::StrCat(number)) {}
  double value;
  std::string text;
};

// Reads a field; of a list its element `i`.
Number NumberIn(const Message& message, const FieldDescriptor* field, int i) {
  const Reflection& values = *message.GetReflection();
  const bool is_list = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return is_list ? values.GetRepeatedInt32(message, field, i) : values.GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return is_list ? values.GetRepeatedInt64(message, field, i) : values.GetInt64(message, field);
    default:  // Other types have no ranges.
      return is_list ? values.GetRepeatedDouble(message, field, i)
                     : values.GetDouble(message, field);
  }
}

bool IsInRange(const FieldRange& bounds, double value) {
  return (bounds.has_above() ? value > bounds.above() : value >= bounds.min()) &&
         (bounds.has_below() ? value < bounds.below() : value <= bounds.max());
}

}  // namespace

std::string RangeText(const FieldDescriptor& field) {
  if (!field.options().HasExtension(range)) return "";
  const FieldRange& bounds = field.options().GetExtension(range);
  const double low = bounds.has_above() ? bounds.above() : bounds.min();
  const double high = bounds.has_below() ? bounds.below() : bounds.max();
  const bool has_low = low > FieldRange().min();
  const bool has_high = high < FieldRange().max();
  if (has_low && has_high) {
    return absl::StrCat("in ", bounds.has_above() ? "(" : "[", low, ", ", high,
                        bounds.has_below() ? ")" : "]");
  }
  if (has_low) return absl::StrCat(bounds.has_above() ? "above " : "at least ", low);
  if (has_high) return absl::StrCat(bounds.has_below() ? "below " : "at most ", high);
  return "finite";
}

void CheckRanges(const Message& message, absl::string_view path,
                 std::vector<std::string>* problems) {
  const Reflection& values = *message.GetReflection();
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(f);
    const bool is_list = field->is_repeated();
    const bool is_message = field->message_type() != nullptr && !field->is_map();
    const FieldRange& bounds = field->options().GetExtension(range);
    if (!is_message && !field->options().HasExtension(range)) continue;
    const int count = is_list ? values.FieldSize(message, field)
                              : values.HasField(message, field) || bounds.required();
    for (int i = 0; i < count; ++i) {
      const std::string place =
          absl::StrCat(path, field->name(), is_list ? absl::StrCat("[", i, "]") : "");
      if (is_message) {
        CheckRanges(is_list ? values.GetRepeatedMessage(message, field, i)
                            : values.GetMessage(message, field),
                    absl::StrCat(place, "."), problems);
        continue;
      }
      const Number number = NumberIn(message, field, i);
      if (IsInRange(bounds, number.value)) continue;
      const std::string text = RangeText(*field);
      problems->push_back(absl::StrCat(
          place, " is ", is_list || values.HasField(message, field) ? number.text : "not set",
          ", expected ", std::isinf(number.value) && text != "finite" ? "finite and " : "", text));
    }
  }
}

void ReadParams(const GivenParams& given, Message* params, std::vector<std::string>* problems) {
  const std::string path = absl::StrCat(given.field, ".");
  if (given.params == nullptr) {
    if (params != nullptr) CheckRanges(*params, path, problems);  // whether some are required
    return;
  }
  const absl::string_view found = MessageName(*given.params);
  const std::string hold = absl::StrCat(
      given.field, " hold ", found.empty() ? "no message" : absl::StrCat("a ", found), ", ");
  if (params == nullptr) {
    problems->push_back(absl::StrCat(hold, "but type '", given.type, "' takes none"));
    return;
  }
  if (given.params->UnpackTo(params)) {
    CheckRanges(*params, path, problems);
    return;
  }
  const absl::string_view taken = params->GetDescriptor()->full_name();
  problems->push_back(
      found == taken ? absl::StrCat(given.field, " hold bytes that are no valid ", taken)
                     : absl::StrCat(hold, "expected a ", taken, " for type '", given.type, "'"));
}

absl::Status ReadParams(const GivenParams& given, Message* params) {
  std::vector<std::string> problems;
  ReadParams(given, params, &problems);
  return problems.empty() ? absl::OkStatus()
                          : absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

absl::Status TakesNoParams(const GivenParams& given) { return ReadParams(given, nullptr); }

absl::Status CheckParams(const ParamsCheck& check, const GivenParams& given) {
  if (check == nullptr) return absl::OkStatus();
  return CallUser(absl::StrCat("the check of ", given.field, " of type '", given.type, "'"),
                  [&] { return check(given); });
}

}  // namespace ding
