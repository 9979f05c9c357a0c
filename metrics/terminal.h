// Text for terminals: styles and width, messages beside a progress line, tables, and the layout of
// a line of progress.
//
// Threads: thread-safe.
#ifndef DING_WORKER_METRICS_TERMINAL_H_
#define DING_WORKER_METRICS_TERMINAL_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

// Returns the number of columns of the terminal `fd`; 80 if it is not a terminal.
int TerminalWidth(int fd);

// Returns the height of the terminal in lines; 24 if it is unknown.
int TerminalHeight(int fd);

// Whether `fd` is a terminal that can redraw a line (TERM is not "dumb").
bool CanDrawOver(int fd);

// Whether to write colours to `fd`: it is a terminal with colours (TERM is set, and not "dumb"),
// and NO_COLOR is unset or empty (no-color.org).
bool UsesColors(int fd);

enum class TextStyle { kPlain, kBold, kDim, kGood, kWarning, kError };

// Returns `text` with the escape sequences (ECMA-48, SGR) of a style around it.
std::string Styled(TextStyle style, absl::string_view text);

// Returns the text that writes `message` on a line of its own of a terminal with `width` columns,
// on which this process or another one may have drawn a progress line (metrics/progress.h): the
// text first blanks the progress line, and ends with a newline. The progress line is drawn again
// below it when it is due.
std::string OnOwnLine(absl::string_view message, int width);

// Writes OnOwnLine() to `fd`, or just the message and a newline if `fd` is not a terminal. Text
// that cannot be written is lost. A message is written by one system call, so that messages do not
// mix.
void WriteMessage(int fd, absl::string_view message);

// Formats a number for the grid, with six decimals.
std::string FormatVar(double value);

// Formats names above values, four per grid (DI-engine's get_tabulate_vars_hor):
//
//   +-------+------------+-----------+
//   | Name  | cur_lr_avg | loss_avg  |
//   +-------+------------+-----------+
//   | Value | 0.001000   | missing   |
//   +-------+------------+-----------+
//
// It ends with a line break; without vars it is empty. Widths count bytes, so text should be ASCII,
// as for FormatTable().
std::string FormatVarGrid(absl::Span<const std::pair<std::string, std::string>> vars);

// Formats aligned columns with two blanks between them: text to the left, and columns whose cells
// below the header are all numbers to the right. Every row must have as many cells as the header.
// It ends with a line break.
std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows);

// A field of a line of progress. Fields that do not fit are shortened or left out, the least
// important first.
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

// Returns the fields in their order, with two blanks between them, in at most `width` columns. If
// one field alone does not fit, it is cut off. `colors`: whether to style them.
ProgressLine LayOutProgress(const std::vector<ProgressField>& fields, size_t width, bool colors);

}  // namespace ding

#endif  // DING_WORKER_METRICS_TERMINAL_H_
