#include "ding_worker/worker/config/field_uses.h"

#include <fnmatch.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr size_t kColumns = 5;
// Those that DescribeUse() names, and among them those that train: the others come after them.
constexpr size_t kDescribedKinds = 6;
constexpr size_t kTrainingKinds = 5;

// Letters of a field of params: those of the params, and the same but refused by all that train.
constexpr absl::string_view kAsParams = "=";
constexpr absl::string_view kRefused = "r";

absl::string_view& Added() {
  static auto* const table = new absl::string_view;
  return *table;
}

// The kinds of runs with this letter.
std::string KindsWith(const FieldUse& use, char letter) {
  std::vector<absl::string_view> kinds;
  for (size_t i = 0; i < kDescribedKinds; ++i) {
    if (use.uses[i] == letter) kinds.push_back(kKindsOfRuns[i]);
  }
  return absl::StrJoin(kinds, ", ");
}

}  // namespace

absl::StatusOr<FieldUses> ParseFieldUses(absl::string_view table) {
  FieldUses rows;
  for (const absl::string_view line : absl::StrSplit(table, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "#")) continue;
    std::vector<std::string> columns = absl::StrSplit(line, " |");
    if (columns.size() < 2 || columns.size() > kColumns) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", line, "' has ", columns.size(), " columns, expected 2 to ", kColumns));
    }
    columns.resize(kColumns);
    for (std::string& column : columns) absl::StripAsciiWhitespace(&column);
    FieldUse row;
    row.uses = absl::StrReplaceAll(columns[1], {{" ", ""}});
    row.value = columns[2];
    row.settings = absl::StrSplit(columns[3], " ; ", absl::SkipEmpty());
    row.note = columns[4];
    const bool of_params = row.uses == kAsParams || row.uses == kRefused;
    if (row.uses.size() != kKindsOfRuns.size() && !of_params) {
      return absl::InvalidArgumentError(absl::StrCat("'", line, "' has ", row.uses.size(),
                                                     " letters, expected ", kKindsOfRuns.size(),
                                                     ", or '=' or 'r' for a field of params"));
    }
    if (!rows.emplace(columns[0], std::move(row)).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", line, "': the field appears twice"));
    }
  }
  return rows;
}

bool StandsFor(const std::string& name, const std::string& field) {
  return fnmatch(name.c_str(), field.c_str(), FNM_NOESCAPE) == 0;
}

std::string ParamsOf(const std::string& field) {
  return field.substr(0, field.find('>') + 1);  // npos + 1 is 0
}

std::optional<FieldUse> FindFieldUse(const FieldUses& table, const std::string& field) {
  const auto line = FindLine(table, field);
  if (line == table.end()) return std::nullopt;
  FieldUse use = line->second;
  if (use.uses.size() == kKindsOfRuns.size()) return use;
  const auto params = table.find(ParamsOf(field));
  if (params == table.end() || params->second.uses.size() != kKindsOfRuns.size()) {
    return std::nullopt;
  }
  const bool refused = use.uses == kRefused;
  use.uses = params->second.uses;
  for (size_t i = 0; refused && i < kTrainingKinds; ++i) {
    if (use.uses[i] == 'u') use.uses[i] = 'r';
  }
  return use;
}

void AddFieldUses(absl::string_view table) { Added() = table; }

const FieldUses& KnownFieldUses() {
  static const auto* const kUses = [] {
    absl::StatusOr<FieldUses> uses = ParseFieldUses(Added());
    DING_CHECK(uses.ok()) << uses.status().message();  // It is part of this program.
    return new FieldUses(*std::move(uses));
  }();
  return *kUses;
}

std::string DescribeUse(const FieldUse& use, bool in_params) {
  std::string text;
  const std::string used = KindsWith(use, 'u');
  if (!in_params) {
    const bool by_all = use.uses.substr(0, kTrainingKinds) == std::string(kTrainingKinds, 'u');
    text = by_all ? "all" : used;
  }
  const auto append = [&text](absl::string_view what, const std::string& kinds) {
    if (!kinds.empty()) absl::StrAppend(&text, text.empty() ? "" : "; ", what, kinds);
  };
  append("refused by ", KindsWith(use, 'r'));
  append("no effect in ", KindsWith(use, 'k'));
  append("", use.note);
  return text;
}

}  // namespace ding
