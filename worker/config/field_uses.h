// In which kinds of runs each field of a config is used or refused: the table
// worker/config_fields.txt, whose head says how to read it.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_CONFIG_FIELD_USES_H_
#define DING_WORKER_WORKER_CONFIG_FIELD_USES_H_

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ding {

// The kinds of runs, in the order of FieldUse::uses. DescribeUse() does not name the last two,
// which use nearly the same fields as a parallel and as a supervised run.
inline constexpr std::array<absl::string_view, 8> kKindsOfRuns = {
    "serial", "on-policy", "supervised",         "parallel",
    "league", "evaluate",  "on-policy parallel", "supervised parallel"};

// A line of the table.
struct FieldUse {
  std::string uses;                   // one letter for each kind; in the file also "=" or "r"
  std::string value;                  // another value than the default, for the test
  std::vector<std::string> settings;  // further settings that the value needs
  std::string note;
};
// By name: "policy.params<DqnConfig>.eps.start"; the name of a line may stand for several fields.
using FieldUses = std::map<std::string, FieldUse, std::less<>>;

// kInvalidArgument shows a line that has another form, or a name that appears twice.
absl::StatusOr<FieldUses> ParseFieldUses(absl::string_view table);

// Whether the name of a line stands for the field: "*" is any text.
bool StandsFor(const std::string& name, const std::string& field);

// The params in which a field is: "policy.params<DqnConfig>"; empty if it is in none.
std::string ParamsOf(const std::string& field);

// Returns the line for a field: the longest name that stands for it, or else the line for its
// params; end(): there is none.
template <class Line>
typename std::map<std::string, Line, std::less<>>::const_iterator FindLine(
    const std::map<std::string, Line, std::less<>>& table, const std::string& field) {
  const auto exact = table.find(field);
  if (exact != table.end()) return exact;
  auto best = table.end();
  for (auto line = table.begin(); line != table.end(); ++line) {
    if (best != table.end() && line->first.size() <= best->first.size()) continue;
    if (StandsFor(line->first, field)) best = line;
  }
  return best != table.end() ? best : table.find(ParamsOf(field));
}

// Returns the line for a field, with one letter for each kind; nullopt: there is none.
std::optional<FieldUse> FindFieldUse(const FieldUses& table, const std::string& field);

// Makes the table known to this program; `table` must live as long as the program.
void AddFieldUses(absl::string_view table);
// The table of this program: empty if none was added.
const FieldUses& KnownFieldUses();

// A phrase for people, such as "serial, parallel; refused by supervised". `in_params` says that the
// field is in the params of a type, so that it is used where the type is.
std::string DescribeUse(const FieldUse& use, bool in_params);

}  // namespace ding

#endif  // DING_WORKER_WORKER_CONFIG_FIELD_USES_H_
