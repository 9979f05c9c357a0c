// Items (data/items.h) for tests of buffers. Beside chunk, row and length they have the columns
//
//   collect_iter  int64[]    the argument
//   priority      float32[]  1
//   collector     int32[]    chunk modulo 10
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_TEST_ITEMS_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_TEST_ITEMS_H_

#include <cstdint>
#include <vector>

#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"

namespace ding {

SegmentBatch TestItems(const std::vector<Item>& items, int64_t collect_iter = 0);
// Items of one chunk: {chunk, 0, 4}, {chunk, 4, 4}, ...
SegmentBatch TestItemsOfChunk(int64_t chunk, int64_t items, int64_t collect_iter = 0);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_TEST_ITEMS_H_
