// Reading and changing configs in protobuf text format, with errors that a person can act upon.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_TEXT_CONFIG_H_
#define DING_WORKER_WORKER_TEXT_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace ding {

// Messages inside messages of a config, at most; the content of an Any counts as one. Deeper ones are
// refused, so that whatever walks a config has the stack for it. The shipped configs need 8.
constexpr int kMaxConfigDepth = 50;

// Parses `text` into `message` and returns every problem found, each as "<source>:<line>:<column>:
// <what>", both from 1; none if all is well. Goes on after an error where it can: the field at
// fault is left out of `message`. An unknown field's problem names the nearest known one. Of a text
// that is nested deeper than kMaxConfigDepth nothing is read.
std::vector<std::string> ParseTextConfig(absl::string_view text, absl::string_view source,
                                         google::protobuf::Message* message);

// Sets the field at `path` ("policy.learn.batch_size") to `value` (as it would stand in a file;
// strings may go unquoted). Paths reach into messages inside an Any; "hook[1]" names an element of
// a repeated field, and a whole repeated field is set from "[a, b]".
//   kInvalidArgument  no such field (the known ones are listed), a value of the wrong type, or one
//                     that is nested too deep
absl::Status SetByPath(absl::string_view path, absl::string_view value,
                       google::protobuf::Message* message);

// `assignment` is "path=value".
absl::Status ApplySetting(absl::string_view assignment, google::protobuf::Message* message);

// OK if the message, with what its Anys hold, can be walked and printed, and its text be read again:
// it is nested no deeper than kMaxConfigDepth, and the bytes in its Anys are messages of their types,
// without further fields. What the functions above return has passed.
//   kInvalidArgument  names the field
absl::Status CheckConfigContent(const google::protobuf::Message& message);

// Writes every default into the message, in sub-messages and in Anys too, so that a saved config
// does not change its meaning when a default does. Fields without a default stay unset. The message
// is one that passes CheckConfigContent().
void FillInDefaults(google::protobuf::Message* message);

// A field that is set to something other than its default.
struct SetField {
  std::string path;  // "policy.params.model.conv[0].kernel"; of a list of numbers, that of the list
  std::string value, default_value;  // as they would stand in a file; default_value may be empty
};
// All of them, in sub-messages and in Anys too; an Any of a type that this program has not is one.
// The message is one that passes CheckConfigContent().
std::vector<SetField> ListSetFields(const google::protobuf::Message& message);

// In text format with Anys expanded. The message is one that passes CheckConfigContent().
std::string PrintTextConfig(const google::protobuf::Message& message);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TEXT_CONFIG_H_
