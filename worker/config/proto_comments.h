// Finds the comments of .proto files at run time, to show them as help. A program contains the
// descriptors of its messages without comments. So the rule ding_registered_texts
// (tools/build_defs/text.bzl) links the texts of .proto files into the program, and adds them here.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_CONFIG_PROTO_COMMENTS_H_
#define DING_WORKER_WORKER_CONFIG_PROTO_COMMENTS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace ding {

// Adds the text of a .proto file, which must live as long as the program. The text is parsed by the
// next CommentOf(); a file that cannot be parsed has no comments.
void AddProtoFile(absl::string_view text);

// Return the comments before and after a declaration, as one line; empty if there is none, or if no
// added file has the declaration.
std::string CommentOf(const google::protobuf::Descriptor& message);
std::string CommentOf(const google::protobuf::EnumValueDescriptor& value);
// A field of a scalar type or of type Any that has no comment, and is on the line below another
// field, shares the comment of that field: CommentOf() then returns "as max_env_step".
std::string CommentOf(const google::protobuf::FieldDescriptor& field);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_PROTO_COMMENTS_H_
