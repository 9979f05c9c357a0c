// A test suite that every buffer of transitions must pass. The test of a buffer instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Naive, BufferConformance, testing::Values(BufferMaker(MakeNaive)));
//
// It covers: life cycle, refused requests (which must change nothing), the ring, sampling by
// recency and with replacement, a random sequence of operations compared with ReferenceBuffer,
// saving and loading (byte for byte; truncated or altered states are refused), and several threads.
#ifndef DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_CONFORMANCE_H_
#define DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_CONFORMANCE_H_

#include <memory>

#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/testing/saved_state.h"
#include "gtest/gtest.h"

namespace ding {

// The suite for buffers that draw every row with the same probability unless priorities are given.
class BufferConformance : public testing::TestWithParam<BufferMaker> {
 protected:
  std::unique_ptr<IBuffer> Make(const BufferSettings& settings = {}) {
    return GetParam()(settings);
  }
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_TESTING_BUFFER_CONFORMANCE_H_
