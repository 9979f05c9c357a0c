// Writes messages to a stream on which a progress line (progress.h) may be drawn, by this process or by
// another one that has the same terminal.
//
// Threads: thread-safe. A message is written by one system call, so that messages do not mix.
#ifndef DING_WORKER_METRICS_TERMINAL_H_
#define DING_WORKER_METRICS_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ding {

// Returns the number of columns of the terminal `fd`; 80 if it is not a terminal.
int TerminalWidth(int fd);

// Whether `fd` is a terminal on which a line can be drawn over: not one of TERM "dumb".
bool CanDrawOver(int fd);

// Its height in lines, 24 if that is unknown.
int TerminalHeight(int fd);

// Whether to write colours to `fd`: it is a terminal that knows them (TERM is set, and not "dumb"), and the
// environment does not have a NO_COLOR that is not empty (no-color.org).
bool UsesColors(int fd);

enum class TextStyle { kPlain, kBold, kDim, kGood, kWarning, kError };

// Returns `text` with the escape sequences (ECMA-48, SGR) of a style around it.
std::string Styled(TextStyle style, absl::string_view text);

// Returns the text that writes `message` on a line of its own of a terminal with `width` columns: it first
// blanks the progress line, and ends with a newline. The progress line is drawn again below it when it is
// due.
std::string OnOwnLine(absl::string_view message, int width);

// Writes OnOwnLine() to `fd`, or just the message and a newline if `fd` is not a terminal. Text that
// cannot be written is lost.
void WriteMessage(int fd, absl::string_view message);

}  // namespace ding

#endif  // DING_WORKER_METRICS_TERMINAL_H_
