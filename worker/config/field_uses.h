// In which kinds of runs each field of a config is used or refused: the table worker/config_fields.txt, whose head says how
// to read it.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_CONFIG_FIELD_USES_H_
#define DING_WORKER_WORKER_CONFIG_FIELD_USES_H_

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ding {

// The kinds of runs, in the order of FieldUse::uses.
inline constexpr std::array<absl::string_view, 6> kKindsOfRuns = {
    "serial", "on-policy", "supervised", "parallel", "league", "evaluate"};

// A line of the table.
struct FieldUse {
  std::string uses;                   // one letter for each kind
  std::string value;                  // another value than the default, for the test
  std::vector<std::string> settings;  // further settings that the value needs
  std::string note;
};
using FieldUses =
    std::map<std::string, FieldUse, std::less<>>;  // by name: "policy.params<DqnConfig>.eps.start"

// kInvalidArgument shows a line that has another form, or a field that appears twice.
absl::StatusOr<FieldUses> ParseFieldUses(absl::string_view table);

// Makes the table known to this program; `table` must live as long as the program.
void AddFieldUses(absl::string_view table);
// The table of this program: empty if none was added.
const FieldUses& KnownFieldUses();

// A phrase for people, such as "serial, parallel; refused by supervised". `in_params` says that the field is in the
// params of a type, so that it is used where the type is.
std::string DescribeUse(const FieldUse& use, bool in_params);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_FIELD_USES_H_
