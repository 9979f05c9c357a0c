// Fills in the defaults of configs, finds what differs from them, and prints configs.
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/utf8.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/type_choices.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// Sets the field to its default; a message has none.
void FillInScalar(const FieldDescriptor& field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(message, &field, field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(message, &field, field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(message, &field, field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(message, &field, field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(message, &field, field.default_value_double());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(message, &field, field.default_value_float());
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(message, &field, field.default_value_bool());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnum(message, &field, field.default_value_enum());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(message, &field, std::string(field.default_value_string()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

// `depth` is how deep the message is nested. Sub-messages are created down to kMaxConfigDepth only,
// since a type may contain itself.
void FillIn(int depth, Message* message) {
  if (auto* const any = dynamic_cast<Any*>(message)) {
    const absl::StatusOr<std::unique_ptr<Message>> inner = UnpackAny(*any);
    if (!inner.ok()) return;  // It is empty, or of a type that the factory will refuse.
    FillIn(depth + 1, inner->get());
    any->PackFrom(**inner);
    return;
  }
  const Descriptor& descriptor = *message->GetDescriptor();
  const Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_repeated()) {
      for (int k = 0; is_message && k < reflection.FieldSize(*message, &field); ++k) {
        FillIn(depth + 1, reflection.MutableRepeatedMessage(message, &field, k));
      }
    } else if (is_message) {
      // The presence of such a message is a choice of the user.
      const bool is_choice =
          field.message_type() == Any::descriptor() || field.containing_oneof() != nullptr;
      const bool is_left_out = is_choice || depth == kMaxConfigDepth;
      if (is_left_out && !reflection.HasField(*message, &field)) continue;
      FillIn(depth + 1, reflection.MutableMessage(message, &field));
    } else if (field.has_default_value() && !field.options().deprecated() &&
               !reflection.HasField(*message, &field)) {
      // A default of one alternative must not replace another alternative that is set.
      const OneofDescriptor* const alternatives = field.containing_oneof();
      if (alternatives != nullptr && reflection.HasOneof(*message, alternatives)) continue;
      FillInScalar(field, message);
    }
  }
}

// Prints by `print`, with characters of UTF-8 as they are. If some bytes are not UTF-8, all bytes
// beyond ASCII become escapes.
template <typename Print>
std::string PrintUtf8(const Print& print) {
  std::string text;
  for (const bool utf8 : {true, false}) {
    TextFormat::Printer printer;
    printer.SetExpandAny(true);
    printer.SetUseShortRepeatedPrimitives(true);
    printer.SetUseUtf8StringEscaping(utf8);
    text.clear();
    print(printer, &text);
    if (IsUtf8(text)) break;
  }
  return text;
}

// Returns the value of the field as it is written in a file. `index` is -1 unless the field is
// repeated.
std::string FieldText(const Message& message, const FieldDescriptor& field, int index) {
  return PrintUtf8([&](const TextFormat::Printer& printer, std::string* text) {
    printer.PrintFieldValueToString(message, &field, index, text);
  });
}

// Appends the fields of the message that differ from their defaults to `*found`. `path` leads to
// the message, and is empty at the root.
void ListFields(const Message& message, const std::string& path, std::vector<SetField>* found) {
  if (const auto* const any = dynamic_cast<const Any*>(&message)) {
    const absl::StatusOr<std::unique_ptr<Message>> inner = UnpackAny(*any);
    if (inner.ok()) return ListFields(**inner, path, found);
    if (!any->type_url().empty()) found->push_back({path, any->type_url(), ""});
    return;
  }
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    const std::string place = absl::StrCat(path, path.empty() ? "" : ".", field->name());
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && !field->is_repeated()) {
      ListFields(reflection.GetMessage(message, field), place, found);
    } else if (is_message && !field->is_map()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        ListFields(reflection.GetRepeatedMessage(message, field, i),
                   absl::StrCat(place, "[", i, "]"), found);
      }
    } else if (field->is_repeated()) {
      std::vector<std::string> values;
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        values.push_back(FieldText(message, *field, i));
      }
      found->push_back({place, absl::StrCat("[", absl::StrJoin(values, ", "), "]"), "[]"});
    } else {
      SetField set = {place, FieldText(message, *field, -1), DefaultText(*field)};
      if (set.value != set.default_value) found->push_back(std::move(set));
    }
  }
}

}  // namespace

std::string DefaultText(const FieldDescriptor& field) {
  if (!field.has_default_value()) return "";
  const std::unique_ptr<Message> empty = NewMessage(*field.containing_type());
  FillInScalar(field, empty.get());
  return FieldText(*empty, field, -1);
}

void FillInDefaults(Message* message) { FillIn(0, message); }

std::vector<SetField> ListSetFields(const Message& message) {
  std::vector<SetField> found;
  ListFields(message, "", &found);
  return found;
}

std::string PrintTextConfig(const Message& message) {
  return PrintUtf8([&](const TextFormat::Printer& printer, std::string* text) {
    printer.PrintToString(message, text);
  });
}

}  // namespace ding
