// Numbered rows, encoded as data for learners, so that a test sees which learner got which rows.
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
// The numbers of such rows; nullopt if the bytes cannot be decoded or have other columns.
std::optional<std::vector<int64_t>> RowsIn(const std::string& items);

}  // namespace ding

#endif  // DING_WORKER_ADAPTER_TESTING_ROWS_H_
