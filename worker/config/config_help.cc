#include "ding_worker/worker/config/config_help.h"

#include <cstddef>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/worker/config/field_uses.h"
#include "ding_worker/worker/config/proto_comments.h"
#include "ding_worker/worker/config/text_config.h"
#include "ding_worker/worker/config/text_parser.h"
#include "ding_worker/worker/config/type_choices.h"
#include "ding_worker/worker/experiment.pb.h"
#include "ding_worker/worker/list_registry.h"
#include "google/protobuf/any.pb.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// The meaning of a field, and where it is only that of another field ("as start"), that field's,
// too.
std::string WithSharedComment(const FieldDescriptor& field, const std::string& meaning) {
  absl::string_view name = meaning;
  if (!absl::ConsumePrefix(&name, "as ")) return meaning;
  const FieldDescriptor* const other = field.containing_type()->FindFieldByName(std::string(name));
  return other == nullptr ? meaning : absl::StrCat(meaning, ": ", DescribeMeaning(*other));
}

// Prints nodes. A message is described where it appears first; elsewhere it says where that is.
class Printer {
 public:
  // Describes the field `node` itself, and what is inside.
  void Print(const ConfigNode& node) {
    if (node.field == nullptr) return PrintMessage(node);
    PrintField(node);
    if (node.message != nullptr) PrintInside(node);
    for (const ConfigNode& params : node.inside) {
      if (node.is_any()) Print(params);
    }
  }

  const std::string& text() const { return text_; }

 private:
  void PrintMessage(const ConfigNode& node) {
    if (!node.types.empty()) {
      AppendBlankLine();
      absl::StrAppend(&text_, node.name, "\n");
      AppendLines(kIndent,
                  absl::StrCat("The params of type ", absl::StrJoin(node.types, ", "), ": a ",
                               node.message->full_name(), ". ", CommentOf(*node.message)));
      // In one line, so that it can be copied.
      absl::StrAppend(&text_, std::string(kIndent, ' '), "Example: ", ExampleOfParams(node),
                      "\n\n");
    } else {
      AppendLines(0, CommentOf(*node.message));
      AppendBlankLine();
    }
    PrintInside(node);
  }

  void PrintInside(const ConfigNode& node) {
    const auto first = described_.emplace(node.message, node.name);
    if (!first.second) {
      AppendLines(kIndent, absl::StrCat("Its fields are those of ", first.first->second, "."));
      return;
    }
    for (const ConfigNode& inner : node.inside) Print(inner);
  }

  void PrintField(const ConfigNode& node) {
    const FieldDescriptor& field = *node.field;
    const std::string value = DefaultText(field);
    const bool is_first = text_.empty();
    if (node.message != nullptr) AppendBlankLine();
    AppendWrapped(absl::StrCat(node.name, value.empty() ? "" : " = ", value, "  "), kIndent,
                  absl::StrCat("(", DescribeKind(field), ")"), &text_);
    const std::string meaning = DescribeMeaning(field);
    AppendLines(kIndent, is_first ? WithSharedComment(field, meaning) : meaning);
    const std::string use = DescribeUse(node);
    if (!use.empty() && use != "all") AppendLines(kIndent, absl::StrCat("Runs: ", use));
    for (const RegistryEntry& entry : TypesOf(field)) {
      AppendLines(2 * kIndent, absl::StrCat(entry.name, ": ", HelpWithParams(entry)));
    }
  }

  // Ends a paragraph, if there is one.
  void AppendBlankLine() {
    if (!text_.empty() && !absl::EndsWith(text_, "\n\n")) absl::StrAppend(&text_, "\n");
  }

  // Appends the words, if there are any, in lines that are indented.
  void AppendLines(size_t indent, const std::string& words) {
    if (!words.empty()) AppendWrapped(std::string(indent, ' '), indent, words, &text_);
  }

  static constexpr size_t kIndent = 4;
  std::string text_;
  std::map<const Descriptor*, std::string> described_;
};

// Whether the last sentence of the field's comment is that it is required, as checks of the modules
// demand.
bool IsRequired(const FieldDescriptor& field) {
  const std::string comment = CommentOf(field);
  const absl::string_view words = absl::StripSuffix(comment, ".");
  return absl::EndsWith(words, "required") || absl::EndsWith(words, "Required");
}

// The fields of the message that are required; if there are none, the first that has a default, as
// "learning_rate: 0.001 "; fields of messages inside come after its own.
std::string AnyField(const Descriptor& message, std::set<const Descriptor*>* around) {
  std::string required;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (field.message_type() != nullptr || !IsRequired(field)) continue;
    const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    absl::StrAppend(&required, field.name(), text ? ": \"...\" " : ": 1 ");
  }
  if (!required.empty()) return required;
  for (int i = 0; i < message.field_count(); ++i) {
    const std::string value = DefaultText(*message.field(i));
    if (!value.empty()) return absl::StrCat(message.field(i)->name(), ": ", value, " ");
  }
  if (!around->insert(&message).second) return "";
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map()) continue;
    if (field.message_type() == Any::descriptor()) continue;
    const std::string inside = AnyField(*field.message_type(), around);
    if (!inside.empty()) return absl::StrCat(field.name(), " { ", inside, "} ");
  }
  return "";
}

// The range of a number, or of each number in a list, as the end of its kind.
std::string RangeOf(const FieldDescriptor& field) {
  const std::string range = RangeText(field);
  if (range.empty()) return "";
  return absl::StrCat(field.is_repeated() ? ", each " : ", ", range);
}

}  // namespace

std::string DescribeKind(const FieldDescriptor& field) {
  if (field.is_map()) return "map";
  const std::string list = field.is_repeated() ? "list of " : "";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(list, field.is_repeated() ? "integers" : "integer", RangeOf(field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return absl::StrCat(list, field.is_repeated() ? "numbers" : "number", RangeOf(field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return list + "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return list + absl::StrJoin(EnumNames(*field.enum_type()), ", ");
    case FieldDescriptor::CPPTYPE_STRING:
      return list + (field.is_repeated() ? "texts" : "text");
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  if (field.message_type() == Any::descriptor()) return "params of the type";
  return list + (field.is_repeated() ? "messages" : "message");
}

std::string DescribeMeaning(const FieldDescriptor& field) {
  std::string meaning = CommentOf(field);
  if (meaning.empty() && field.message_type() != nullptr && !field.is_map() &&
      field.message_type() != Any::descriptor()) {
    meaning = CommentOf(*field.message_type());
  }
  const EnumDescriptor* const type = field.enum_type();
  if (type == nullptr) return meaning;
  std::vector<std::string> values;
  for (int i = 0; i < type->value_count(); ++i) {
    const std::string comment = CommentOf(*type->value(i));
    if (!comment.empty()) values.push_back(absl::StrCat(type->value(i)->name(), ": ", comment));
  }
  const bool ends = meaning.empty() || absl::EndsWith(meaning, ".");
  return absl::StrCat(meaning,
                      meaning.empty() || values.empty() ? ""
                      : ends                            ? " "
                                                        : ". ",
                      absl::StrJoin(values, "; "), values.empty() ? "" : ".");
}

std::string DescribeUse(const ConfigNode& node) {
  if (node.message != nullptr) return "";
  const std::optional<FieldUse> use = FindFieldUse(KnownFieldUses(), node.name);
  return use.has_value() ? DescribeUse(*use, absl::StrContains(node.name, '<')) : "";
}

std::vector<RegistryEntry> TypesOf(const FieldDescriptor& field) {
  const TypeChoice* const choice = FindTypeChoice(field);
  return choice == nullptr ? std::vector<RegistryEntry>() : EntriesOfChoice(*choice);
}

std::string ExampleOfParams(const ConfigNode& params) {
  std::set<const Descriptor*> around;
  std::string text = absl::StrCat(params.opening, AnyField(*params.message, &around));
  for (int i = 0; i < params.blocks; ++i) absl::StrAppend(&text, i == 0 ? "}" : " }");
  return text;
}

absl::StatusOr<std::string> ConfigHelp(absl::string_view path) {
  const ConfigNode tree = MakeConfigTree(*ExperimentConfig::descriptor());
  DING_ASSIGN_OR_RETURN(const std::vector<const ConfigNode*> nodes, FindConfigNodes(tree, path));
  Printer printer;
  for (const ConfigNode* const node : nodes) printer.Print(*node);
  return printer.text();
}

}  // namespace ding
