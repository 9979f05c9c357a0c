// Parses protobuf text format with a bound on how deep messages are nested. Unlike the bound of
// TextFormat::Parser, this one also counts messages that are written inside an Any.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_BOUNDED_TEXT_PARSER_H_
#define DING_WORKER_WORKER_CONFIG_BOUNDED_TEXT_PARSER_H_

#include <optional>
#include <string>

#include "google/protobuf/message.h"

namespace ding {

// The first error of a parse.
struct TextError {
  int line = 0;  // lines and columns count from 0; a negative line: the whole text
  int column = 0;
  std::string message;    // empty if the parser gave no reason
  bool too_deep = false;  // the text is nested too deep, and nothing of it was read
};

// Parses `text` into `message`, replacing its content. Returns the first error, if there is one;
// `message` then has the fields before the error, or none if the text is nested deeper than
// `max_depth`.
std::optional<TextError> ParseBoundedText(const std::string& text, int max_depth,
                                          google::protobuf::Message* message);

// Returns the error text for messages that are nested deeper than `max_depth`.
std::string TooDeepText(int max_depth);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_BOUNDED_TEXT_PARSER_H_
