// Reads and changes configs in protobuf text format, with errors that a person can act upon.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_TEXT_CONFIG_H_
#define DING_WORKER_WORKER_CONFIG_TEXT_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {

// The largest allowed nesting of messages in a config; the content of an Any counts as one level.
// Deeper ones are refused, so that code that walks a config does not overflow the stack. The
// shipped configs need 8.
constexpr int kMaxConfigDepth = 50;

// Parses `text` into `message` and returns every problem found, each as "<source>:<line>:<column>:
// <what>", where lines and columns count from 1; none if all is well. Continues after an error
// where it can, and leaves the faulty field out of `message`. The problem of an unknown field names
// the nearest known one. If the text is nested deeper than kMaxConfigDepth, nothing is read.
std::vector<std::string> ParseTextConfig(absl::string_view text, absl::string_view source,
                                         google::protobuf::Message* message);

// Sets the field at `path` ("policy.learn.batch_size") to `value`, which is written as in a file,
// except that strings need no quotes. Paths reach into messages inside an Any; "hook[1]" names an
// element of a repeated field, and a whole repeated field is set from "[a, b]".
//   kInvalidArgument  there is no such field (lists the known ones), or the value has the wrong
//                     type or is nested too deep
absl::Status SetByPath(absl::string_view path, absl::string_view value,
                       google::protobuf::Message* message);

// Does the same for `assignment`, which is "path=value".
absl::Status ApplySetting(absl::string_view assignment, google::protobuf::Message* message);

// Whether `path` is the field at `outer`, or inside of it.
bool IsWithinField(absl::string_view path, absl::string_view outer);

// OK if the message and the content of its Anys can be walked and printed, and the printed text can
// be parsed again: it is nested no deeper than kMaxConfigDepth, and the bytes in its Anys are
// messages of their types without unknown fields. Messages that the functions above have returned
// without a problem fulfil this.
//   kInvalidArgument  names the field
absl::Status CheckConfigContent(const google::protobuf::Message& message);

// Writes every default into the message, also in sub-messages and in Anys, so that a saved config
// keeps its meaning when a default changes. Fields without a default stay unset. The message must
// be one that passes CheckConfigContent().
void FillInDefaults(google::protobuf::Message* message);

// Returns the default of a field as it is written in a file; empty if it has none.
std::string DefaultText(const google::protobuf::FieldDescriptor& field);

// A field that is set to something other than its default.
struct SetField {
  std::string path;                  // for a list of numbers, the path of the list
  std::string value, default_value;  // written as in a file; default_value may be empty
};
// Returns all such fields, also in sub-messages and in Anys; an Any of a type that this program
// does not know counts as one field. The message must be one that passes CheckConfigContent().
std::vector<SetField> ListSetFields(const google::protobuf::Message& message);

// Prints the message in text format, with Anys expanded. It must be one that passes
// CheckConfigContent(). The text is UTF-8; if a string of the message is not, bytes beyond ASCII
// are escapes.
std::string PrintTextConfig(const google::protobuf::Message& message);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_TEXT_CONFIG_H_
