#include "ding_worker/worker/config/bounded_text_parser.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/common.h"  // for GOOGLE_PROTOBUF_VERSION
#include "google/protobuf/text_format.h"

namespace ding {
namespace {

using google::protobuf::Message;
using google::protobuf::TextFormat;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::ColumnNumber;
using google::protobuf::io::ErrorCollector;
using google::protobuf::io::Tokenizer;

// Keeps the first error of a parse.
class FirstError : public ErrorCollector {
 public:
#if GOOGLE_PROTOBUF_VERSION >= 4022000
  void RecordError(int line, ColumnNumber column, absl::string_view message) override {
    Keep(line, column, message);
  }
  void RecordWarning(int, ColumnNumber, absl::string_view) override {}
#else
  void AddError(int line, ColumnNumber column, const std::string& message) override {
    Keep(line, column, message);
  }
  void AddWarning(int, ColumnNumber, const std::string&) override {}
#endif

  // The default error if none was added.
  const TextError& error() const { return error_; }

 private:
  void Keep(int line, ColumnNumber column, absl::string_view message) {
    if (found_) return;
    found_ = true;
    error_.line = line;
    error_.column = column;
    error_.message = std::string(message);
  }

  bool found_ = false;
  TextError error_;
};

// Returns an error at the first token that opens a message deeper than `max_depth`, if there is
// one. It counts in the tokens that the parser will see, since the parser's own limit does not
// count messages that are written inside an Any.
std::optional<TextError> FindTooDeep(const std::string& text, int max_depth) {
  ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  FirstError ignored;  // The parser reports the same errors.
  Tokenizer tokens(&input, &ignored);
  tokens.set_allow_f_after_float(true);
  tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
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

std::string TooDeepText(int max_depth) {
  return absl::StrCat("messages are nested more than ", max_depth, " deep");
}

}  // namespace ding
