#include "ding_worker/metrics/table.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr size_t kVarsPerGrid = 4;

using Row = std::vector<std::string>;

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

}  // namespace

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

}  // namespace ding
