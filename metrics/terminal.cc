#include "ding_worker/metrics/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr size_t kVarsPerGrid = 4;
constexpr size_t kGap = 2;  // blanks between two fields of a line of progress

using Row = std::vector<std::string>;

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

std::vector<size_t> ColumnWidths(const Row& first, absl::Span<const Row> rows) {
  std::vector<size_t> widths;
  for (const std::string& cell : first) widths.push_back(cell.size());
  for (const Row& row : rows) {
    DING_CHECK(row.size() == first.size()) << row.size() << " cells, not " << first.size();
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string Blanks(size_t cell_size, size_t width) { return std::string(width - cell_size, ' '); }

std::string GridRow(const Row& row, const std::vector<size_t>& widths) {
  std::string line = "|";
  for (size_t i = 0; i < row.size(); ++i) {
    absl::StrAppend(&line, " ", row[i], Blanks(row[i].size(), widths[i]), " |");
  }
  return line + "\n";
}

std::string GridRule(const std::vector<size_t>& widths) {
  std::string line = "+";
  for (const size_t width : widths) absl::StrAppend(&line, std::string(width + 2, '-'), "+");
  return line + "\n";
}

std::string Grid(const Row& names, const Row& values) {
  const std::vector<size_t> widths = ColumnWidths(names, {values});
  const std::string rule = GridRule(widths);
  return absl::StrCat(rule, GridRow(names, widths), rule, GridRow(values, widths), rule);
}

bool IsNumber(const std::string& cell) {
  double value;
  return absl::SimpleAtod(cell, &value);
}

std::vector<bool> NumberColumns(size_t columns, const std::vector<Row>& rows) {
  std::vector<bool> numbers(columns, !rows.empty());
  for (const Row& row : rows) {
    for (size_t i = 0; i < columns; ++i) numbers[i] = numbers[i] && IsNumber(row[i]);
  }
  return numbers;
}

std::string TableRow(const Row& row, const std::vector<size_t>& widths,
                     const std::vector<bool>& to_the_right) {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    const std::string blanks = Blanks(row[i].size(), widths[i]);
    absl::StrAppend(&line, i > 0 ? "  " : "", to_the_right[i] ? blanks : "", row[i],
                    to_the_right[i] ? "" : blanks);
  }
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(line), "\n");
}

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

std::string FormatVar(double value) { return absl::StrFormat("%.6f", value); }

std::string FormatVarGrid(absl::Span<const std::pair<std::string, std::string>> vars) {
  std::string text;
  for (; !vars.empty(); vars.remove_prefix(std::min(kVarsPerGrid, vars.size()))) {
    Row names = {"Name"}, values = {"Value"};
    for (const auto& [name, value] : vars.subspan(0, kVarsPerGrid)) {
      names.push_back(name);
      values.push_back(value);
    }
    text += Grid(names, values);
  }
  return text;
}

std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows) {
  const std::vector<size_t> widths = ColumnWidths(header, rows);
  const std::vector<bool> to_the_right = NumberColumns(header.size(), rows);
  std::string text = TableRow(header, widths, to_the_right);
  for (const Row& row : rows) text += TableRow(row, widths, to_the_right);
  return text;
}

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
