// Says what a person can do about an error of the parser of protobuf text format.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_TEXT_ERROR_H_
#define DING_WORKER_WORKER_CONFIG_TEXT_ERROR_H_

#include <optional>
#include <string>

#include "ding_worker/worker/config/bounded_text_parser.h"
#include "google/protobuf/descriptor.h"

namespace ding {

// Rewords `error`, which the parser found in `text`, a message of type `root`:
//   unknown field      names the nearest known one or, inside of params, the message that the type takes
//   unknown value of an enum            lists those that exist
//   unknown message in an Any           names the one that the type beside it takes
//   a '}' without a '{'
// Other errors stay as they are.
std::string ExplainTextError(const TextError& error, const std::string& text,
                             const google::protobuf::Descriptor& root);

// Returns an error at the '{' of a block that is never closed, if there is one. It is the block whose '}' is missing
// by the indentation, or else the innermost block that is open at the end.
std::optional<TextError> FindUnclosedBlock(const std::string& text);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_TEXT_ERROR_H_
