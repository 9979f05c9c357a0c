#include "ding_worker/worker/config/text_parser.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/worker/config/type_choices.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

using google::protobuf::Any;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

constexpr absl::string_view kUrl = "type.googleapis.com/";

// Makes the tokens those of the text format.
void SetTextFormat(Tokenizer* tokens) {
  tokens->set_allow_f_after_float(true);
  tokens->set_comment_style(Tokenizer::SH_COMMENT_STYLE);
}

// Returns an error at the first token that opens a message deeper than `max_depth`, if there is
// one. It counts in the tokens that the parser will see, since the parser's own limit does not
// count messages that are written inside an Any.
std::optional<TextError> FindTooDeep(const std::string& text, int max_depth) {
  ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  FirstError ignored;  // The parser reports the same errors.
  Tokenizer tokens(&input, &ignored);
  SetTextFormat(&tokens);
  int depth = 0;
  while (tokens.Next()) {
    const std::string& token = tokens.current().text;
    if (token == "{" || token == "<") {
      if (++depth <= max_depth) continue;
      return TextError{tokens.current().line, tokens.current().column, TooDeepText(max_depth),
                       /*too_deep=*/true};
    }
    if ((token == "}" || token == ">") && depth > 0) --depth;
  }
  return std::nullopt;
}

// A block of a text in protobuf text format, from '{' to '}'. Blocks are found also in texts that
// the parser refuses, to say what is wrong with them.
struct TextBlock {
  // The field that the block is the value of, or "[type.googleapis.com/ding.DqnConfig]".
  std::string name;
  int line = 0, column = 0;  // of its '{'; they count from 0
  // The strings that are set in it, by field, up to where the reading stopped.
  std::map<std::string, std::string> strings;
};

struct TextBlocks {
  // The blocks that are open, outermost first. The first one is the whole text, without a name.
  std::vector<TextBlock> open;
  // The first block whose end stands further left than its beginning: most likely its '}' is
  // missing, and it has taken the one of the block around it.
  std::optional<TextBlock> suspect;
};

// Takes the tokens of a text one by one, and keeps the blocks that are open.
class BlockReader {
 public:
  BlockReader() : blocks_{{TextBlock()}, std::nullopt}, indents_{0} {}

  void Take(const Tokenizer::Token& token) {
    const bool begins_line = token.line != line_;
    if (begins_line) {
      line_ = token.line;
      indent_ = token.column;
    }
    if (in_brackets_) return TakeInBrackets(token);
    if (token.text == "{" || token.text == "<") {
      blocks_.open.push_back({name_, token.line, token.column, {}});
      indents_.push_back(indent_);
    } else if (token.text == "}" || token.text == ">") {
      Close(begins_line, token.column);
    } else if (token.text == "[") {
      in_brackets_ = true;
      brackets_.clear();
    } else if (token.text == ":") {
      after_colon_ = true;
      return;
    } else if (after_colon_) {
      if (token.type == Tokenizer::TYPE_STRING) {
        Tokenizer::ParseString(token.text, &blocks_.open.back().strings[name_]);
      }
    } else if (token.type == Tokenizer::TYPE_IDENTIFIER) {
      name_ = token.text;
    }
    if (!in_brackets_) after_colon_ = false;
  }

  const TextBlocks& blocks() const { return blocks_; }

 private:
  // What stands in brackets is the name of a message or a list. A list may have blocks.
  void TakeInBrackets(const Tokenizer::Token& token) {
    if (token.text != "]" && token.text != "{" && token.text != "<") {
      brackets_ += token.text;
      return;
    }
    in_brackets_ = false;
    if (token.text == "]" && !after_colon_) name_ = absl::StrCat("[", brackets_, "]");
    after_colon_ = false;
    if (token.text != "]") Take(token);
  }

  void Close(bool begins_line, int column) {
    if (blocks_.open.size() == 1) return;  // one '}' too many
    if (begins_line && column < indents_.back() && !blocks_.suspect.has_value()) {
      blocks_.suspect = blocks_.open.back();
    }
    name_ = blocks_.open.back().name;  // of the next block, in a list
    blocks_.open.pop_back();
    indents_.pop_back();
  }

  TextBlocks blocks_;
  std::vector<int> indents_;  // of the line where each open block begins
  int line_ = -1;
  int indent_ = 0;
  std::string name_;  // the field whose value comes next
  std::string brackets_;
  bool in_brackets_ = false;
  bool after_colon_ = false;
};

// The field that is the block `i` of `blocks`, in a message of type `parent`; null if there is
// none.
const FieldDescriptor* FieldOfBlock(const TextBlocks& blocks, size_t i, const Descriptor* parent) {
  return parent == nullptr ? nullptr : parent->FindFieldByName(blocks.open[i].name);
}

// The message that the block `i` is.
const Descriptor* MessageOf(const TextBlocks& blocks, size_t i, const Descriptor& root) {
  if (i == 0) return &root;
  absl::string_view name = blocks.open[i].name;
  if (absl::ConsumePrefix(&name, "[") && absl::ConsumeSuffix(&name, "]")) {
    return DescriptorPool::generated_pool()->FindMessageTypeByName(
        std::string(name.substr(name.rfind('/') + 1)));
  }
  const FieldDescriptor* const field = FieldOfBlock(blocks, i, MessageOf(blocks, i - 1, root));
  return field == nullptr ? nullptr : field->message_type();
}

// Reads up to the place, which counts from 0, or to the end of the text.
TextBlocks ReadBlocks(const std::string& text, int line, int column) {
  ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  FirstError ignored;  // The parser reports the same errors.
  Tokenizer tokens(&input, &ignored);
  SetTextFormat(&tokens);
  BlockReader reader;
  while (tokens.Next()) {
    const Tokenizer::Token& token = tokens.current();
    if (token.line > line || (token.line == line && token.column >= column)) break;
    reader.Take(token);
  }
  return reader.blocks();
}

TextBlocks ReadBlocks(const std::string& text) {
  return ReadBlocks(text, std::numeric_limits<int>::max(), 0);
}

// The message that the innermost open block is, if the whole text is a `root`; null if that cannot
// be said.
const Descriptor* MessageOfBlock(const TextBlocks& blocks, const Descriptor& root) {
  return MessageOf(blocks, blocks.open.size() - 1, root);
}

// The message that the innermost open block, a google.protobuf.Any, must name by the type that is
// set beside it; null if that cannot be said.
const Descriptor* ParamsMessageOfBlock(const TextBlocks& blocks, const Descriptor& root) {
  const size_t last = blocks.open.size() - 1;
  if (last == 0) return nullptr;
  const FieldDescriptor* const params =
      FieldOfBlock(blocks, last, MessageOf(blocks, last - 1, root));
  if (params == nullptr) return nullptr;
  const FieldDescriptor* const type = FindTypeField(*params);
  if (type == nullptr) return nullptr;
  const auto& strings = blocks.open[last - 1].strings;
  const auto set = strings.find(std::string(type->name()));
  const absl::StatusOr<const Descriptor*> taken =
      FindParamsMessage(set == strings.end() ? type->default_value_string() : set->second, *params);
  return taken.ok() ? *taken : nullptr;
}

// What is missing in params that begin with a field, most often that of the message that the type
// takes.
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

// The Levenshtein distance, in which two neighbours that were swapped are one error.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // from the first i characters of a to the first j of b
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  std::vector<size_t> above = row;
  std::vector<size_t> two_above = row;
  for (size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::vector<std::string> FieldNames(const Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i)
    names.emplace_back(descriptor.field(i)->name());
  return names;
}

std::string SuggestName(const std::vector<std::string>& names, absl::string_view name) {
  const std::string nearest = NearestName(names, name);
  if (!nearest.empty()) return absl::StrCat("did you mean '", nearest, "'?");
  return absl::StrCat("it has: ", absl::StrJoin(names, ", "));
}

}  // namespace

std::optional<TextError> ParseBoundedText(const std::string& text, int max_depth,
                                          Message* message) {
  std::optional<TextError> too_deep = FindTooDeep(text, max_depth);
  if (too_deep.has_value()) {
    message->Clear();
    return too_deep;
  }
  FirstError first;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&first);
  if (parser.ParseFromString(text, message)) return std::nullopt;
  return first.error();
}

std::string TooDeepText(int max_depth) {
  return absl::StrCat("messages are nested more than ", max_depth, " deep");
}

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

std::string NearestName(const std::vector<std::string>& names, absl::string_view name) {
  const auto nearest = std::min_element(names.begin(), names.end(),
                                        [name](const std::string& a, const std::string& b) {
                                          return EditDistance(a, name) < EditDistance(b, name);
                                        });
  const bool is_near = nearest != names.end() &&
                       EditDistance(*nearest, name) * 3 <= std::max<size_t>(name.size(), 3);
  return is_near ? *nearest : "";
}

std::string SuggestField(const Descriptor& descriptor, absl::string_view name) {
  return SuggestName(FieldNames(descriptor), name);
}

std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.value_count(); ++i)
    names.emplace_back(descriptor.value(i)->name());
  return names;
}

}  // namespace ding
