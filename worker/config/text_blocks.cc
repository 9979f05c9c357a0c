#include "ding_worker/worker/config/text_blocks.h"

#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ding_worker/worker/config/bounded_text_parser.h"
#include "ding_worker/worker/config/type_choices.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace ding {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

// Takes the tokens of a text one by one, and keeps the blocks that are open.
class Reader {
 public:
  Reader() : blocks_{{TextBlock()}, std::nullopt}, indents_{0} {}

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

// The field that is the block `i` of `blocks`, in a message of type `parent`; null if there is none.
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

}  // namespace

TextBlocks ReadBlocks(const std::string& text, int line, int column) {
  ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  FirstError ignored;  // The parser reports the same errors.
  Tokenizer tokens(&input, &ignored);
  SetTextFormat(&tokens);
  Reader reader;
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

const Descriptor* MessageOfBlock(const TextBlocks& blocks, const Descriptor& root) {
  return MessageOf(blocks, blocks.open.size() - 1, root);
}

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

}  // namespace ding
