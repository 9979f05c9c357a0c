#include "ding_worker/worker/list_registry.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"

namespace ding {
namespace {

// The help of longer names begins in the line below them.
constexpr size_t kLongestName = 32;
constexpr absl::string_view kIndent = "  ";
constexpr size_t kColumns = 100;  // of a line

}  // namespace

std::string HelpWithParams(const RegistryEntry& entry) {
  if (entry.params == nullptr) return entry.help;
  return absl::StrCat(entry.help, " [", entry.params()->full_name(), "]");
}

void ListEntries(absl::string_view kind, const std::vector<RegistryEntry>& entries,
                 const std::vector<std::string>& problems, std::string* text) {
  if (entries.empty() && problems.empty()) {
    absl::StrAppend(text, kind, ": none in this program\n");
    return;
  }
  absl::StrAppend(text, kind, ":\n");
  size_t longest = 0;
  for (const RegistryEntry& entry : entries) {
    if (entry.name.size() <= kLongestName) longest = std::max(longest, entry.name.size());
  }
  const size_t indent = kIndent.size() + longest + 2;
  for (const RegistryEntry& entry : entries) {
    std::string line = absl::StrCat(kIndent, entry.name);
    if (entry.name.size() > longest) {
      absl::StrAppend(text, line, "\n");
      line.clear();
    }
    line.resize(indent, ' ');
    AppendWrapped(std::move(line), indent, HelpWithParams(entry), text);
  }
  for (const std::string& problem : problems) {
    AppendWrapped(absl::StrCat(kIndent, "error: "), 2 * kIndent.size(), problem, text);
  }
}

void AppendWrapped(std::string line, size_t indent, absl::string_view sentence, std::string* text) {
  bool begins = true;
  for (const absl::string_view word : absl::StrSplit(sentence, ' ', absl::SkipEmpty())) {
    if (!begins && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(text, line, "\n");
      line.assign(indent, ' ');
      begins = true;
    }
    absl::StrAppend(&line, begins ? "" : " ", word);
    begins = false;
  }
  absl::StrAppend(text, line, "\n");
}

}  // namespace ding
