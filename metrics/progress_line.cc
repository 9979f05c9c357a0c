#include "ding_worker/metrics/progress_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

constexpr size_t kGap = 2;  // blanks between two fields

// A field, and which of its forms is shown; the number of forms: none.
struct Shown {
  const ProgressField* field;
  size_t form = 0;

  bool is_left_out() const { return form == field->forms.size(); }
  const ProgressField::Form& current() const { return field->forms[form]; }
};

size_t ColumnsOf(const std::vector<Shown>& line) {
  size_t columns = 0;
  for (const Shown& shown : line) {
    if (shown.is_left_out()) continue;
    columns += (columns == 0 ? 0 : kGap) + shown.current().text.size();
  }
  return columns;
}

// Returns the field whose form is the least important; null if it is the last one that is left.
Shown* LeastImportant(std::vector<Shown>* line) {
  Shown* least = nullptr;
  size_t left = 0;
  for (Shown& shown : *line) {
    if (shown.is_left_out()) continue;
    ++left;
    if (least == nullptr || shown.current().importance < least->current().importance) {
      least = &shown;
    }
  }
  if (least == nullptr) return nullptr;
  const bool is_last_form = least->form + 1 == least->field->forms.size();
  return left == 1 && is_last_form ? nullptr : least;
}

}  // namespace

ProgressLine LayOutProgress(const std::vector<ProgressField>& fields, size_t width, bool colors) {
  std::vector<Shown> line;
  for (const ProgressField& field : fields) line.push_back({&field});
  while (ColumnsOf(line) > width) {
    Shown* const least = LeastImportant(&line);
    if (least == nullptr) break;
    ++least->form;
  }
  ProgressLine result;
  for (const Shown& shown : line) {
    if (shown.is_left_out()) continue;
    if (result.columns > 0) {
      result.text.append(kGap, ' ');
      result.columns += kGap;
    }
    const std::string text = shown.current().text.substr(0, width);
    absl::StrAppend(&result.text, colors ? Styled(shown.field->style, text) : text);
    result.columns += text.size();
  }
  return result;
}

}  // namespace ding
