// Lays out fields in one line of a terminal: what does not fit is shortened or left out, the least important
// first.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_METRICS_PROGRESS_LINE_H_
#define DING_WORKER_METRICS_PROGRESS_LINE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/metrics/terminal.h"

namespace ding {

struct ProgressField {
  struct Form {
    std::string text;
    int importance = 0;  // a form is given up before all forms of higher importance
  };
  // From the longest to the shortest; after the last one the field is left out. Not empty.
  std::vector<Form> forms;
  TextStyle style = TextStyle::kPlain;
};

struct ProgressLine {
  std::string text;  // with the escape sequences of colours
  size_t columns = 0;
};

// Returns the fields in their order, with two blanks between them, in at most `width` columns. Of the last
// field that is left as much as fits is shown. `colors`: whether to style them.
ProgressLine LayOutProgress(const std::vector<ProgressField>& fields, size_t width, bool colors);

}  // namespace ding

#endif  // DING_WORKER_METRICS_PROGRESS_LINE_H_
