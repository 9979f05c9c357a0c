// Rows that contain their own origin, for tests of buffers. They come from several streams with
// episodes, cut into segments as the test asks.
//
//   obs/place    float32[4]  {stream, step, episode, steps into the episode}
//   obs/picture  uint8[3]    a function of the same numbers
//   action       int64[]     a function of stream and step
//   reward       float32[]   a function of stream and step
//   done_once    bool[]      whether the row is the last of its episode
//   collect_iter int64[]     rows made before this one
//
// With stacks of frames, after obs/picture:
//
//   obs/frames   uint8[3, 2, 2]  stacked along axis 0
//   obs/strip    float32[2, 4]   stacked along axis 1: {frame, -frame} of the last four frames
//
// A frame has the number 1000 stream + step + 1. An episode begins with empty frames (0), with its
// first frame repeated, or with the last stack of the episode before. Now and then, a stack begins
// anew or an old frame changes within an episode.
//
// The observation after a row is the observation of the stream's next row, or {stream, step + 1,
// episode, steps into the episode + 1} after the last row of an episode.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_TEST_STREAMS_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_TEST_STREAMS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"

namespace ding {

struct SegmentPlan {
  int64_t stream;
  int64_t length;
  SegmentEnd end = SegmentEnd::kCut;
};

class TestStreams {
 public:
  // Streams may start at any step.
  explicit TestStreams(int64_t first_step = 0, bool stacks = false)
      : first_step_(first_step), stacks_(stacks) {}

  // Makes the next rows of these streams.
  SegmentBatch Make(const std::vector<SegmentPlan>& plans);
  // Loses the next `steps` steps of `stream`.
  void Skip(int64_t stream, int64_t steps);

  static const SpecPtr& RowSpec(bool stacks = false);
  static const SpecPtr& ObsSpec(bool stacks = false);
  // An element of obs/frames in the frame with this number.
  static uint8_t Pixel(int64_t frame, int64_t index);

 private:
  struct Cursor {
    int64_t stream = 0;
    int64_t step = 0;
    int64_t episode = 0;
    int64_t offset = 0;
    int64_t frames[4] = {};  // numbers, oldest first
  };

  Cursor& CursorOf(int64_t stream);
  void WriteObs(const Cursor& at, const RowRef& row) const;
  static void NextFrame(Cursor* at);

  const int64_t first_step_;
  const bool stacks_;
  int64_t rows_made_ = 0;
  std::map<int64_t, Cursor> cursors_;
};

// Makes a push of 1 to 4 segments with random streams, lengths up to `max_length` and ends. Now and
// then a stream loses steps.
SegmentBatch RandomPush(TestStreams* streams, Rng* rng, int64_t max_length);

// Returns OK if every row of a batch with one-step windows is consistent: its columns agree with
// its obs/place, and its next observation is the one after it. Otherwise the error names the row.
absl::Status CheckRows(const Batch& batch);

// Items (data/items.h) for tests of buffers. Beside chunk, row and length they have the columns
//
//   collect_iter  int64[]    the argument
//   priority      float32[]  1
//   collector     int32[]    chunk modulo 10
SegmentBatch TestItems(const std::vector<Item>& items, int64_t collect_iter = 0);
// Items of one chunk: {chunk, 0, 4}, {chunk, 4, 4}, ...
SegmentBatch TestItemsOfChunk(int64_t chunk, int64_t items, int64_t collect_iter = 0);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_TEST_STREAMS_H_
