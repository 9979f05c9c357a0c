// Tables of text for logs and terminals.
//
// Threads: thread-safe (pure functions). Widths are counted in bytes: meant for ASCII.
#ifndef DING_WORKER_METRICS_TABLE_H_
#define DING_WORKER_METRICS_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

// A number as the grid shows it: six decimals.
std::string FormatVar(double value);

// Names and values side by side, four to a grid (the original's get_tabulate_vars_hor):
//
//   +-------+------------+-----------+
//   | Name  | cur_lr_avg | loss_avg  |
//   +-------+------------+-----------+
//   | Value | 0.001000   | missing   |
//   +-------+------------+-----------+
//
// Ends with a line break; "" for no vars.
std::string FormatVarGrid(absl::Span<const std::pair<std::string, std::string>> vars);

// Columns aligned with two blanks between them: text to the left, columns whose cells below the
// header are all numbers to the right. Every row has as many cells as the header. Ends with a line
// break.
std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows);

}  // namespace ding

#endif  // DING_WORKER_METRICS_TABLE_H_
