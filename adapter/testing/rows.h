// Numbered rows, as items of data for learners: a test sees which of them came where.
//
// Threads: thread-safe (pure functions).
#ifndef DING_WORKER_ADAPTER_TESTING_ROWS_H_
#define DING_WORKER_ADAPTER_TESTING_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ding {

// Rows `begin` to `begin + rows - 1`, encoded as in LearnerData::items.
std::string EncodedRows(int64_t begin, int64_t rows);
// The numbers of such rows; none: the bytes cannot be decoded, or to other columns.
std::optional<std::vector<int64_t>> RowsIn(const std::string& items);

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_TESTING_ROWS_H_
