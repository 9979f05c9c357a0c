// The types that a config chooses by name: which registries know the names, which message the
// parameters beside such a name are, and how the google.protobuf.Any that holds them is opened.
//
// Threads: thread-safe (pure functions, and the registries, which are thread-safe).
#ifndef DING_WORKER_WORKER_CONFIG_TYPE_CHOICES_H_
#define DING_WORKER_WORKER_CONFIG_TYPE_CHOICES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "google/protobuf/any.pb.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace ding {

// A field that chooses a type by its name.
struct TypeChoice {
  absl::string_view message;             // full name of the message that has the field
  absl::string_view field;               // name of the field, which is a string
  std::vector<absl::string_view> kinds;  // of the registries; a name is in one of them
};

// Every choice. A registry whose types a config chooses by a field needs a line in the source of
// this function.
const std::vector<TypeChoice>& TypeChoices();

// The choice that `field` makes, or null if it chooses no type.
const TypeChoice* FindTypeChoice(const google::protobuf::FieldDescriptor& field);
// The field of `message` that chooses the type whose parameters `params` holds, or null if `params`
// holds none. It is the field with "type" where `params` has "params" in its name.
const google::protobuf::FieldDescriptor* FindTypeField(
    const google::protobuf::FieldDescriptor& params);

// All types that this program has for the choice, sorted by name.
std::vector<RegistryEntry> EntriesOfChoice(const TypeChoice& choice);

// Finds the message that the field `params` must hold for the type that `message` chooses; null if
// the registration of the type names no message.
//   kInvalidArgument  the field holds no parameters of a type, no type is chosen, or this program
//                     does not have it
absl::StatusOr<const google::protobuf::Descriptor*> FindParamsMessage(
    const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& params);
// Does the same for the type `name`.
absl::StatusOr<const google::protobuf::Descriptor*> FindParamsMessage(
    absl::string_view name, const google::protobuf::FieldDescriptor& params);

// Returns a sentence for each Any of the config, also in sub-messages and in other Anys, which
// holds another message than the type beside it takes: "policy.params hold a ding.PpoConfig,
// expected a ding.DqnConfig for type 'dqn'".
std::vector<std::string> FindWrongParams(const google::protobuf::Message& config);

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

#endif  // DING_WORKER_WORKER_CONFIG_TYPE_CHOICES_H_
