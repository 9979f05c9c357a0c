// The files that programs of earlier versions have saved (make_format_fixtures), for tests, and the
// buffers of every type, with known content, that are among them.
//
// Threads: thread-safe.
#ifndef DING_WORKER_WORKER_TESTING_SAVED_FORMATS_H_
#define DING_WORKER_WORKER_TESTING_SAVED_FORMATS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/buffer_types.h"

namespace ding {

// Path of a file among the fixtures.
std::string FixturePath(const std::string& file);

// Returns the values of `key` in expected.txt, in their order; there is at least one.
std::vector<double> ExpectedOf(const std::string& key);

// Unpacks the folder of the run `name` into `folder`, and returns its path.
std::string UnpackRun(const std::string& name, const std::string& folder);

// Replaces the first occurrence of `from` in the file by `to`, which must have the same length.
void ReplaceInFile(const std::string& path, const std::string& from, const std::string& to);

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

#endif  // DING_WORKER_WORKER_TESTING_SAVED_FORMATS_H_
