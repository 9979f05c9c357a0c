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

// Returns the text that writes `message` on a line of its own of a terminal with `width` columns: it first
// blanks the progress line, and ends with a newline. The progress line is drawn again below it when it is
// due.
std::string OnOwnLine(absl::string_view message, int width);

// Writes OnOwnLine() to `fd`, or just the message and a newline if `fd` is not a terminal. Text that
// cannot be written is lost.
void WriteMessage(int fd, absl::string_view message);

}  // namespace ding

#endif  // DING_WORKER_METRICS_TERMINAL_H_
