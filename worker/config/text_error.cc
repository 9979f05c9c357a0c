#include "ding_worker/worker/config/text_error.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "ding_worker/worker/config/suggestion.h"
#include "ding_worker/worker/config/text_blocks.h"
#include "google/protobuf/any.pb.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

constexpr absl::string_view kUrl = "type.googleapis.com/";

// What is missing in params that begin with a field, most often that of the message that the type takes.
std::string ExplainFieldOfAny(const std::string& field, const TextBlocks& blocks,
                              const Descriptor& root) {
  const Descriptor* const taken = ParamsMessageOfBlock(blocks, root);
  const std::string name(taken == nullptr ? "my.Message" : taken->full_name());
  return absl::StrCat("'", field, "' needs the message around it that the type takes: ",
                      blocks.open.back().name, " { [", kUrl, name, "] { ", field, ": ... } }");
}

std::string ExplainEnumValue(const std::string& value, const std::string& name,
                             const TextBlocks& blocks, const Descriptor& root) {
  const std::string found = absl::StrCat("unknown value '", value, "' of field '", name, "'");
  const Descriptor* const message = MessageOfBlock(blocks, root);
  const FieldDescriptor* const field =
      message == nullptr ? nullptr : message->FindFieldByName(name);
  if (field == nullptr || field->enum_type() == nullptr) return found;
  return absl::StrCat(found, "; expected ", absl::StrJoin(EnumNames(*field->enum_type()), ", "));
}

}  // namespace

std::string ExplainTextError(const TextError& error, const std::string& text,
                             const Descriptor& root) {
  const std::vector<std::string> quoted = absl::StrSplit(error.message, '"');
  const TextBlocks blocks = ReadBlocks(text, error.line, error.column);
  // Message type "ding.LearnSection" has no field named "batchsize".
  if (quoted.size() == 5 && absl::StrContains(quoted[2], "has no field named")) {
    const Descriptor* const message =
        DescriptorPool::generated_pool()->FindMessageTypeByName(quoted[1]);
    if (message == Any::descriptor()) return ExplainFieldOfAny(quoted[3], blocks, root);
    if (message != nullptr) {
      return absl::StrCat("unknown field '", quoted[3], "' in ", quoted[1], "; ",
                          SuggestField(*message, quoted[3]));
    }
  }
  // Unknown enumeration value of "REST" for field "retry_type".
  if (quoted.size() == 5 && absl::StartsWith(quoted[0], "Unknown enumeration value")) {
    return ExplainEnumValue(quoted[1], quoted[3], blocks, root);
  }
  // Could not find type "type.googleapis.com/ding.Nope" stored in google.protobuf.Any.
  if (quoted.size() == 3 && absl::StartsWith(quoted[0], "Could not find type")) {
    const Descriptor* const taken = ParamsMessageOfBlock(blocks, root);
    return absl::StrCat(
        "this program has no message '", quoted[1].substr(quoted[1].rfind('/') + 1), "'; ",
        taken == nullptr ? std::string("link the module that takes it")
                         : absl::StrCat("the type takes [", kUrl, taken->full_name(), "]"));
  }
  // [ding.DqnConfig] instead of [type.googleapis.com/ding.DqnConfig].
  if (absl::StartsWith(error.message, "Expected \"/\", found \"]\"")) {
    const Descriptor* const taken = ParamsMessageOfBlock(blocks, root);
    return absl::StrCat("the name of a message begins with ", kUrl, ", as in [", kUrl,
                        taken == nullptr ? "my.Message" : taken->full_name(), "]");
  }
  if (blocks.open.size() == 1 && absl::EndsWith(error.message, "got: }")) {
    return "this '}' ends nothing: it is one too many, or a '{' before it is missing";
  }
  return error.message;
}

std::optional<TextError> FindUnclosedBlock(const std::string& text) {
  const TextBlocks blocks = ReadBlocks(text);
  if (blocks.open.size() == 1) return std::nullopt;
  const TextBlock& block = blocks.suspect.has_value() ? *blocks.suspect : blocks.open.back();
  return TextError{block.line, block.column,
                   absl::StrCat("the '{' of '", block.name, "' in line ", block.line + 1,
                                " is never closed: a '}' is missing")};
}

}  // namespace ding
