// Sets single fields of configs by their paths.
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/text_parser.h"
#include "ding_worker/worker/config/type_choices.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// One part of a path, between two dots.
struct PathStep {
  std::string name;          // of the field
  std::optional<int> index;  // in a repeated field
};

// Reads "name" or "name[index]".
absl::StatusOr<PathStep> ParseStep(absl::string_view text) {
  PathStep step;
  const size_t bracket = text.find('[');
  step.name = std::string(text.substr(0, bracket));
  if (bracket == absl::string_view::npos) return step;
  int index = 0;
  absl::string_view rest = text.substr(bracket + 1);
  if (!absl::ConsumeSuffix(&rest, "]") || !absl::SimpleAtoi(rest, &index) || index < 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a field or field[index]"));
  }
  step.index = index;
  return step;
}

absl::StatusOr<const FieldDescriptor*> FindField(const Message& message, const PathStep& step) {
  const Descriptor& descriptor = *message.GetDescriptor();
  const FieldDescriptor* const field = descriptor.FindFieldByName(step.name);
  if (field == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("no field '", step.name, "' in ",
                                                   descriptor.full_name(), "; ",
                                                   SuggestField(descriptor, step.name)));
  }
  if (step.index.has_value() && !field->is_repeated()) {
    return absl::InvalidArgumentError(
        absl::StrCat("field '", step.name, "' in ", descriptor.full_name(), " is not a list"));
  }
  return field;
}

// The message that the type beside `params`, an Any of `message`, takes.
absl::StatusOr<const Descriptor*> RequireParamsMessage(const Message& message,
                                                       const FieldDescriptor& params) {
  DING_ASSIGN_OR_RETURN(const Descriptor* const taken, FindParamsMessage(message, params));
  if (taken != nullptr) return taken;
  const FieldDescriptor& type = *FindTypeField(params);
  return absl::InvalidArgumentError(
      absl::StrCat(params.name(), " is empty, and ", type.name(), " '",
                   message.GetReflection()->GetString(message, &type),
                   "' takes none (or its registration does not name the message that it takes)"));
}

// Whether `value` is the content of an Any without the name of its message: "{learning_rate:
// 1e-4}".
bool IsBareContent(absl::string_view value) {
  if (!absl::ConsumePrefix(&value, "{")) return false;
  value = absl::StripLeadingAsciiWhitespace(value);
  return !absl::StartsWith(value, "[") && !absl::StartsWith(value, "type_url") &&
         !absl::StartsWith(value, "value");
}

// Replaces the value of the field that `step` names in `message`.
absl::Status SetLeaf(const PathStep& step, absl::string_view value, Message* message) {
  DING_ASSIGN_OR_RETURN(const FieldDescriptor* const field, FindField(*message, step));
  if (step.index.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("set the whole list '", step.name, "' as ", step.name, "=[a, b]"));
  }
  std::string text(value);
  const bool is_string = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (is_string && !field->is_repeated() && (value.empty() || value[0] != '"')) {
    text = absl::StrCat("\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
  }
  if (field->message_type() == Any::descriptor() && IsBareContent(value)) {
    DING_ASSIGN_OR_RETURN(const Descriptor* const taken, RequireParamsMessage(*message, *field));
    text = absl::StrCat("{[type.googleapis.com/", taken->full_name(), "]", value, "}");
  }
  text = absl::StrCat(step.name, ": ", text);
  const std::unique_ptr<Message> parsed(message->New());
  const std::optional<TextError> error = ParseBoundedText(text, kMaxConfigDepth, parsed.get());
  if (error.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", value, "' is not a value of ", field->is_repeated() ? "list " : "",
                     "field '", step.name, "' (", field->cpp_type_name(),
                     "): ", ExplainTextError(*error, text, *message->GetDescriptor())));
  }
  message->GetReflection()->ClearField(message, field);
  message->MergeFrom(*parsed);
  return absl::OkStatus();
}

// Sets the field to which `steps` lead from `message`; there is at least one step.
absl::Status SetBySteps(absl::Span<const PathStep> steps, absl::string_view value,
                        Message* message) {
  if (auto* const any = dynamic_cast<Any*>(message)) {
    DING_ASSIGN_OR_RETURN(const std::unique_ptr<Message> inner, UnpackAny(*any));
    DING_RETURN_IF_ERROR(SetBySteps(steps, value, inner.get()));
    any->PackFrom(*inner);
    return absl::OkStatus();
  }
  if (steps.size() == 1) return SetLeaf(steps[0], value, message);
  DING_ASSIGN_OR_RETURN(const FieldDescriptor* const field, FindField(*message, steps[0]));
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    return absl::InvalidArgumentError(
        absl::StrCat("field '", steps[0].name, "' has no fields inside"));
  }
  const Reflection& reflection = *message->GetReflection();
  if (!field->is_repeated()) {
    Message* const inner = reflection.MutableMessage(message, field);
    auto* const any = dynamic_cast<Any*>(inner);
    if (any != nullptr && any->type_url().empty()) {
      DING_ASSIGN_OR_RETURN(const Descriptor* const taken, RequireParamsMessage(*message, *field));
      any->PackFrom(*NewMessage(*taken));
    }
    return SetBySteps(steps.subspan(1), value, inner);
  }
  const int size = reflection.FieldSize(*message, field);
  if (!steps[0].index.has_value() || *steps[0].index >= size) {
    return absl::InvalidArgumentError(absl::StrCat("field '", steps[0].name, "' is a list of ",
                                                   size, ": name one as ", steps[0].name, "[0]"));
  }
  return SetBySteps(steps.subspan(1), value,
                    reflection.MutableRepeatedMessage(message, field, *steps[0].index));
}

}  // namespace

absl::Status SetByPath(absl::string_view path, absl::string_view value, Message* message) {
  std::vector<PathStep> steps;
  for (const absl::string_view part : absl::StrSplit(path, '.')) {
    DING_ASSIGN_OR_RETURN(PathStep step, ParseStep(part));
    steps.push_back(std::move(step));
  }
  // Works on a copy, since a wrong path creates the messages on its way before the error is found.
  const std::unique_ptr<Message> changed(message->New());
  changed->CopyFrom(*message);
  DING_RETURN_IF_ERROR(
      Annotate(SetBySteps(steps, value, changed.get()), absl::StrCat("cannot set '", path, "'")));
  DING_RETURN_IF_ERROR(
      Annotate(CheckConfigContent(*changed), absl::StrCat("cannot set '", path, "'")));
  message->GetReflection()->Swap(message, changed.get());
  return absl::OkStatus();
}

absl::Status ApplySetting(absl::string_view assignment, Message* message) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(assignment, absl::MaxSplits('=', 1));
  if (!absl::StrContains(assignment, '=') || parts.first.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", assignment, "' is not of the form path=value"));
  }
  return SetByPath(absl::StripAsciiWhitespace(parts.first),
                   absl::StripAsciiWhitespace(parts.second), message);
}

bool IsWithinField(absl::string_view path, absl::string_view outer) {
  if (!absl::StartsWith(path, outer)) return false;
  return path.size() == outer.size() || path[outer.size()] == '.' || path[outer.size()] == '[';
}

}  // namespace ding
