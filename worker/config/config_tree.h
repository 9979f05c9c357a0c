// All fields that a config may have, also in the params of every type that this program has.
//
// Ownership: nodes own the nodes inside them; descriptors live as long as the program.
// Threads: thread-safe (pure functions, and the registries, which are thread-safe).
#ifndef DING_WORKER_WORKER_CONFIG_CONFIG_TREE_H_
#define DING_WORKER_WORKER_CONFIG_CONFIG_TREE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace ding {

// A field of a config, or the message that is the params of a type: it stands inside the node of
// the field `params`.
struct ConfigNode {
  // With the message in `params`: "policy.params<DqnConfig>.eps.start". Empty for the whole config.
  std::string name;
  // As --set takes it: "policy.params.eps.start"; "hook[0]" for an element of a list of messages.
  std::string path;
  // Null for the whole config and for the message in params.
  const google::protobuf::FieldDescriptor* field = nullptr;
  // The message with the fields `inside`; null for a value and for an Any.
  const google::protobuf::Descriptor* message = nullptr;
  // Only of a message in params: the names of the types that take it.
  std::vector<std::string> types;
  // Whether the same message in params stands in an earlier node, too: env.evaluator_params and
  // env.params.
  bool is_repeated = false;
  // The text of a config that leads to the fields inside: "policy { type: \"dqn\" params {
  // [...DqnConfig] { ", without its `blocks` closing braces.
  std::string opening;
  int blocks = 0;
  std::vector<ConfigNode> inside;

  // Whether it holds the params of a type.
  bool is_any() const;
};

// The tree of a config that is a `root`. A message that a user's module nests inside itself is left
// out.
ConfigNode MakeConfigTree(const google::protobuf::Descriptor& root);

// Finds what a person calls `path`: a name or a path, where "[2]" is ignored, "<dqn>" stands for
// "<DqnConfig>", and a path through params without "<...>" means the messages of all types.
//   kNotFound  says where the path ends, and which paths there are that one may have meant
absl::StatusOr<std::vector<const ConfigNode*>> FindConfigNodes(const ConfigNode& root,
                                                               absl::string_view path);

// All fields that have a value: not messages with fields, but Anys. Fields in repeated params
// (`is_repeated`) are left out.
std::vector<const ConfigNode*> ListConfigValues(const ConfigNode& root);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_CONFIG_TREE_H_
