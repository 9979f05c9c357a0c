#include "ding_worker/worker/config/suggestion.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ding {
namespace {

using google::protobuf::Descriptor;

// The Levenshtein distance, in which two neighbours that were swapped are one error.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // from the first i characters of a to the first j of b
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  std::vector<size_t> above = row;
  std::vector<size_t> two_above = row;
  for (size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::vector<std::string> FieldNames(const Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i)
    names.emplace_back(descriptor.field(i)->name());
  return names;
}

}  // namespace

std::string NearestName(const std::vector<std::string>& names, absl::string_view name) {
  const auto nearest = std::min_element(names.begin(), names.end(),
                                        [name](const std::string& a, const std::string& b) {
                                          return EditDistance(a, name) < EditDistance(b, name);
                                        });
  const bool is_near = nearest != names.end() &&
                       EditDistance(*nearest, name) * 3 <= std::max<size_t>(name.size(), 3);
  return is_near ? *nearest : "";
}

std::string SuggestName(const std::vector<std::string>& names, absl::string_view name) {
  const std::string nearest = NearestName(names, name);
  if (!nearest.empty()) return absl::StrCat("did you mean '", nearest, "'?");
  return absl::StrCat("it has: ", absl::StrJoin(names, ", "));
}

std::string SuggestField(const Descriptor& descriptor, absl::string_view name) {
  return SuggestName(FieldNames(descriptor), name);
}

std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.value_count(); ++i)
    names.emplace_back(descriptor.value(i)->name());
  return names;
}

}  // namespace ding
