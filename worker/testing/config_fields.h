// The fields of an experiment config for the tests of worker/config_fields.txt: each field with a
// config in which it can be set, and another value for it.
//
// It registers a reward shaping function, a remover, a stopper and a metric sink as "of_the_test",
// for the values of the tables of tests.
//
// The working folder must be the root of the checkout (or of a test's runfiles).
#ifndef DING_WORKER_WORKER_TESTING_CONFIG_FIELDS_H_
#define DING_WORKER_WORKER_TESTING_CONFIG_FIELDS_H_

#include <string>
#include <vector>

#include "ding_worker/worker/config/field_uses.h"
#include "google/protobuf/descriptor.h"

namespace ding {

inline constexpr char kConfigFieldsTable[] = "worker/config_fields.txt";

// Small networks, for the params of policies with one network, and with two.
inline constexpr char kSmallModel[] = "model { encoder_hidden_size: 4 }";
inline constexpr char kSmallModels[] =
    "model { encoder_hidden_size: 4 } critic { encoder_hidden_size: 4 }";

struct ConfigField {
  std::string name;  // as in the table: "policy.params<DqnConfig>.learning_rate"
  std::string path;  // as for --set; in a list of messages, the path of the first element
  const google::protobuf::FieldDescriptor* descriptor;
  // The settings that put the field's message into its Any, and what else that message needs; none
  // if the field is in no Any.
  std::vector<std::string> settings;
};

std::vector<ConfigField> AllConfigFields();

// The lines of the table.
FieldUses ReadConfigFieldsTable();

// Returns `value`, which is a value of the table. If it is empty, returns a value other than the
// field's default, or an empty string if no such value is easily made.
std::string OtherValue(const ConfigField& field, const std::string& value);

// The text of an Any with a message of this type.
std::string InAny(const google::protobuf::Descriptor& type, const std::string& content = "");

// Writes episodes in the spaces of this env, and returns the file.
std::string EpisodesOf(const std::string& type, int episodes = 8);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_CONFIG_FIELDS_H_
