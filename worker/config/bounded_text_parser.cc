#include "ding_worker/worker/config/bounded_text_parser.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::Tokenizer;

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

void SetTextFormat(Tokenizer* tokens) {
  tokens->set_allow_f_after_float(true);
  tokens->set_comment_style(Tokenizer::SH_COMMENT_STYLE);
}

std::string TooDeepText(int max_depth) {
  return absl::StrCat("messages are nested more than ", max_depth, " deep");
}

}  // namespace ding
