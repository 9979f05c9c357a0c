// Messages on a stream on which a progress line (progress.h) may be drawn, by this process or by
// another one that has the same terminal.
//
// Threads: thread-safe; a message is one system call, so that messages do not mix.
#ifndef DING_WORKER_METRICS_TERMINAL_H_
#define DING_WORKER_METRICS_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace ding {

// Columns of the terminal `fd`; 80 if it is none.
int TerminalWidth(int fd);

// `message` with a newline at its end, behind what takes a progress line off a terminal of that width:
// it begins on a line of its own. The line is drawn again below it when it is due.
std::string OnOwnLine(absl::string_view message, int width);

// Writes that to `fd`; just the line if `fd` is no terminal. What cannot be written is lost.
void WriteMessage(int fd, absl::string_view message);

}  // namespace ding

#endif  // DING_WORKER_METRICS_TERMINAL_H_
