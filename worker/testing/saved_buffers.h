// Buffers of every type with known content, for fixtures of their file formats.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_TESTING_SAVED_BUFFERS_H_
#define DING_WORKER_WORKER_TESTING_SAVED_BUFFERS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"

namespace ding {

// Returns an empty buffer with the same options as in the fixture of that type.
std::unique_ptr<IBuffer> EmptyFixtureBuffer(const BufferType& type);

// Fills the buffer with more rows than it holds; the rows tell where they come from (TestStreams).
void FillFixtureBuffer(IBuffer* buffer);

// Draws as much as can be drawn, and returns the number of different rows. Returns an error if one
// is not whole.
absl::StatusOr<int64_t> CountDrawnRows(IBuffer* buffer);

// Returns the name of the file of that type's fixture.
std::string FixtureFile(const BufferType& type);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_SAVED_BUFFERS_H_
