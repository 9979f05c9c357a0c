#include "ding_worker/policy/check_sequences.h"

#include "absl/strings/str_cat.h"

namespace ding {

absl::Status CheckSequences(const Sequences& sequences, int64_t state_size,
                            absl::Span<const float> states) {
  const int64_t rows = sequences.rows.rows();
  const int64_t length = sequences.length;
  if (length < 1 || rows % length != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences: ", rows, " rows are no sequences of length ", length,
                     "; the length must be at least 1 and divide the number of rows"));
  }
  if (sequences.burn_in < 0 || sequences.burn_in >= length) {
    return absl::InvalidArgumentError(absl::StrCat("sequences: burn_in is ", sequences.burn_in,
                                                   " in sequences of length ", length,
                                                   "; it must be in 0..", length - 1));
  }
  const int64_t count = rows / length;
  const auto given = static_cast<int64_t>(sequences.state.size());
  if (given != 0 && given != count * state_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences: ", given, " floats of state for ", count, " sequences of ",
                     state_size, " each; expected ", count * state_size, " or none"));
  }
  const auto marks = static_cast<int64_t>(sequences.is_first.size());
  if (marks != 0 && marks != rows) {
    return absl::InvalidArgumentError(absl::StrCat("sequences: is_first has ", marks,
                                                   " elements for ", rows,
                                                   " rows; expected one for each row, or none"));
  }
  const auto room = static_cast<int64_t>(states.size());
  if (room != 0 && room != rows * state_size && room != count * state_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences: room for ", room, " floats of states after the rows; expected ",
                     rows * state_size, " (after each row), ", count * state_size,
                     " (after the last row of each sequence) or none"));
  }
  return absl::OkStatus();
}

}  // namespace ding
