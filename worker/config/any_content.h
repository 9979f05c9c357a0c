// Opens the message inside a google.protobuf.Any of a config.
//
// Ownership: the caller owns what UnpackAny() returns.
// Threads:   thread-safe (pure functions).
#ifndef DING_WORKER_WORKER_CONFIG_ANY_CONTENT_H_
#define DING_WORKER_WORKER_CONFIG_ANY_CONTENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {

// Returns the full name of the message that `any` names, such as "ding.DqnConfig"; empty if `any` is empty.
std::string TypeNameOfAny(const google::protobuf::Any& any);

// Makes an empty message of a type that is linked into this program.
std::unique_ptr<google::protobuf::Message> NewMessage(
    const google::protobuf::Descriptor& descriptor);

// Returns the type that `any` names, or null if this program does not know that type. The type
// lives as long as the program.
const google::protobuf::Descriptor* TypeOfAny(const google::protobuf::Any& any);

// Makes a message of the type that `any` names, with the content of `any`.
//   kInvalidArgument  `any` is empty, this program does not know the type, or the bytes are no
//                     message of it
absl::StatusOr<std::unique_ptr<google::protobuf::Message>> UnpackAny(
    const google::protobuf::Any& any);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_ANY_CONTENT_H_
