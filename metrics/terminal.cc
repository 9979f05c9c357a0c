#include "ding_worker/metrics/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ding {
namespace {

bool IsSet(const char* value) { return value != nullptr && *value != '\0'; }

absl::string_view CodeOf(TextStyle style) {
  switch (style) {
    case TextStyle::kPlain:
      break;
    case TextStyle::kBold:
      return "1";
    case TextStyle::kDim:
      return "2";
    case TextStyle::kGood:
      return "32";
    case TextStyle::kWarning:
      return "33";
    case TextStyle::kError:
      return "31";
  }
  return "";
}

}  // namespace

int TerminalWidth(int fd) {
  winsize size;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int TerminalHeight(int fd) {
  winsize size;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

bool CanDrawOver(int fd) {
  const char* const term = std::getenv("TERM");
  return isatty(fd) == 1 && (term == nullptr || absl::string_view(term) != "dumb");
}

bool UsesColors(int fd) {
  return CanDrawOver(fd) && IsSet(std::getenv("TERM")) && !IsSet(std::getenv("NO_COLOR"));
}

std::string Styled(TextStyle style, absl::string_view text) {
  const absl::string_view code = CodeOf(style);
  return code.empty() ? std::string(text) : absl::StrCat("\x1b[", code, "m", text, "\x1b[0m");
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
