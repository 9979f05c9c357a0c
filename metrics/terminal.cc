#include "ding_worker/metrics/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ding {

int TerminalWidth(int fd) {
  winsize size;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string OnOwnLine(absl::string_view message, int width) {
  // Blanks, not an escape sequence: every terminal knows them. Some break the line when the last
  // column is written.
  const auto blanks = static_cast<size_t>(std::max(width - 1, 0));
  return absl::StrCat("\r", std::string(blanks, ' '), "\r", absl::StripSuffix(message, "\n"), "\n");
}

void WriteMessage(int fd, absl::string_view message) {
  const std::string text = isatty(fd) == 1 ? OnOwnLine(message, TerminalWidth(fd))
                                           : absl::StrCat(absl::StripSuffix(message, "\n"), "\n");
  absl::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = write(fd, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    left.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace ding
