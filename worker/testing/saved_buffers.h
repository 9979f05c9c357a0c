// Buffers of every type with content that is known, for fixtures of what they save.
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

// An empty one, as the fixture of that type was.
std::unique_ptr<IBuffer> EmptyFixtureBuffer(const BufferType& type);

// Fills it with rows that tell where they come from (TestStreams), more than it holds.
void FillFixtureBuffer(IBuffer* buffer);

// Draws as much as can be drawn: how many different rows there are. An error if one is not whole.
absl::StatusOr<int64_t> CountDrawnRows(IBuffer* buffer);

// The file of that type's fixture.
std::string FixtureFile(const BufferType& type);

}  // namespace ding

#endif  // DING_WORKER_WORKER_TESTING_SAVED_BUFFERS_H_
