// Describes the fields of a config for people: meaning, kind of value, default, values of an enum,
// types and their params. `--help_config` prints these descriptions, and docs/reference/config.md
// is made of them.
//
// Threads: thread-safe (pure functions, and the registries, which are thread-safe).
#ifndef DING_WORKER_WORKER_CONFIG_CONFIG_HELP_H_
#define DING_WORKER_WORKER_CONFIG_CONFIG_HELP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/worker/config/config_tree.h"
#include "google/protobuf/descriptor.h"

namespace ding {

// "integer", "number", "text", "true or false", "message", "params of the type", or "list of" one
// of them; for an enum its values. Behind a number is its range: "integer, at least 1".
std::string DescribeKind(const google::protobuf::FieldDescriptor& field);

// The comment of the field, or else the comment of its message, and what the values of an enum
// mean.
std::string DescribeMeaning(const google::protobuf::FieldDescriptor& field);

// In which kinds of runs the field is used or refused; empty if this program does not know it.
std::string DescribeUse(const ConfigNode& node);

// The types that this program has for a field that chooses one; none for other fields.
std::vector<RegistryEntry> TypesOf(const google::protobuf::FieldDescriptor& field);

// A config, as a text that can be parsed, with the message `params` of a type: one of its fields is
// set to its default.
std::string ExampleOfParams(const ConfigNode& params);

// The help about `path`, which is as in FindConfigNodes(), for a terminal: lines of at most 100
// columns. An empty path is the whole config.
//   kNotFound  there is no such field; the message suggests others
absl::StatusOr<std::string> ConfigHelp(absl::string_view path);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_CONFIG_HELP_H_
