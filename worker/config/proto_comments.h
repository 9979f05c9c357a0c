// The comments of .proto files, as help for people. A program has the messages, but not their
// comments: it has only the comments of the files that the rule ding_registered_texts
// (tools/build_defs/text.bzl) has added.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_CONFIG_PROTO_COMMENTS_H_
#define DING_WORKER_WORKER_CONFIG_PROTO_COMMENTS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace ding {

// Adds the text of a .proto file, which must live as long as the program. It is read when a comment
// is asked for; a file that cannot be read has no comments.
void AddProtoFile(absl::string_view text);

// Returns the comments before and behind the declaration, as one line; empty if there is none, or
// if no file with the declaration was added.
std::string CommentOf(const google::protobuf::Descriptor& message);
std::string CommentOf(const google::protobuf::EnumValueDescriptor& value);
// A value or an Any without a comment, right below another field, shares the comment of that field,
// "as max_env_step".
std::string CommentOf(const google::protobuf::FieldDescriptor& field);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_PROTO_COMMENTS_H_
