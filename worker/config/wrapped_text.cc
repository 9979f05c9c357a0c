#include "ding_worker/worker/config/wrapped_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ding {
namespace {

constexpr size_t kColumns = 100;

}  // namespace

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
