// Parses protobuf text format with a bound on how deep messages are nested, says what a person can
// do about an error, and suggests names. Unlike the bound of TextFormat::Parser, this one also
// counts messages that are written inside an Any.
//
// Threads: thread-safe (pure functions); a FirstError is thread-compatible.
#ifndef DING_WORKER_WORKER_CONFIG_TEXT_PARSER_H_
#define DING_WORKER_WORKER_CONFIG_TEXT_PARSER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/stubs/common.h"  // for GOOGLE_PROTOBUF_VERSION

namespace ding {

// The first error of a parse.
struct TextError {
  int line = 0;  // lines and columns count from 0; a negative line: the whole text
  int column = 0;
  std::string message;    // empty if the parser gave no reason
  bool too_deep = false;  // the text is nested too deep, and nothing of it was read
};

// Keeps the first error of a parse.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
#if GOOGLE_PROTOBUF_VERSION >= 4022000
  void RecordError(int line, google::protobuf::io::ColumnNumber column,
                   absl::string_view message) override {
    Keep(line, column, message);
  }
  void RecordWarning(int, google::protobuf::io::ColumnNumber, absl::string_view) override {}
#else
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    Keep(line, column, message);
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
#endif

  // The default error if none was added.
  const TextError& error() const { return error_; }

 private:
  void Keep(int line, google::protobuf::io::ColumnNumber column, absl::string_view message) {
    if (found_) return;
    found_ = true;
    error_.line = line;
    error_.column = column;
    error_.message = std::string(message);
  }

  bool found_ = false;
  TextError error_;
};

// Parses `text` into `message`, replacing its content. Returns the first error, if there is one;
// `message` then has the fields before the error, or none if the text is nested deeper than
// `max_depth`.
std::optional<TextError> ParseBoundedText(const std::string& text, int max_depth,
                                          google::protobuf::Message* message);

// Returns the error text for messages that are nested deeper than `max_depth`.
std::string TooDeepText(int max_depth);

// Rewords `error`, which the parser found in `text`, a message of type `root`:
//   unknown field              names the nearest known one or, inside of params, the message that
//                              the type takes
//   unknown value of an enum   lists the values that exist
//   unknown message in an Any  names the one that the type beside it takes
//   a '}' without a '{'
// Other errors stay as they are.
std::string ExplainTextError(const TextError& error, const std::string& text,
                             const google::protobuf::Descriptor& root);

// Returns an error at the '{' of a block that is never closed, if there is one. The indentation
// shows which block lacks its '}'; if it does not, the error is at the innermost block that is open
// at the end.
std::optional<TextError> FindUnclosedBlock(const std::string& text);

// Returns the name that a person may have meant by `name`: the nearest one, or "" if none is near.
std::string NearestName(const std::vector<std::string>& names, absl::string_view name);

// Returns the end of an error text about `name`, which is no field of the message: "did you mean
// 'batch_size'?", or "it has: ..." with all fields if none of them is near to it.
std::string SuggestField(const google::protobuf::Descriptor& descriptor, absl::string_view name);

// The names of all values of an enum.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& descriptor);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_TEXT_PARSER_H_
