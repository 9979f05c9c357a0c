// Formats tables of text for logs and terminals.
//
// Threads: thread-safe (pure functions). Widths count bytes, so text should be ASCII.
#ifndef DING_WORKER_METRICS_TABLE_H_
#define DING_WORKER_METRICS_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

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
// It ends with a line break; without vars it is empty.
std::string FormatVarGrid(absl::Span<const std::pair<std::string, std::string>> vars);

// Formats aligned columns with two blanks between them: text to the left, and columns whose cells
// below the header are all numbers to the right. Every row must have as many cells as the header. It
// ends with a line break.
std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows);

}  // namespace ding

#endif  // DING_WORKER_METRICS_TABLE_H_
