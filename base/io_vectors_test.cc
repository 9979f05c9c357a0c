#include "ding_worker/base/io_vectors.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace ding {
namespace {

// Appends at most three bytes per call to `all`; every second call fails with EINTR.
struct SlowWriter {
  std::string* all;
  int* calls;
  ssize_t operator()(const iovec* vectors, int count) const {
    if (++*calls % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    ssize_t moved = 0;
    for (int i = 0; i < count; ++i) {
      for (size_t at = 0; at < vectors[i].iov_len && moved < 3; ++at, ++moved) {
        all->push_back(static_cast<const char*>(vectors[i].iov_base)[at]);
      }
    }
    return moved;
  }
};

TEST(IoVectors, MovesAllBytesWhenEachCallMovesFew) {
  std::string all;
  int calls = 0;
  EXPECT_EQ(MoveAll(SlowWriter{&all, &calls}, {VectorOf("ab"), VectorOf(""), VectorOf("cdefghi"),
                                               VectorOf("j"), VectorOf("")}),
            0);
  EXPECT_EQ(all, "abcdefghij");
  all.clear();
  EXPECT_EQ(MoveAll(SlowWriter{&all, &calls}, {VectorOf("ab"), VectorOf("cdefghi")}, 4), 0);
  EXPECT_EQ(all, "efghi") << "the first four are moved already";
  EXPECT_EQ(MoveAll(SlowWriter{&all, &calls}, {VectorOf("ab"), VectorOf("c")}, 3), 0);
  EXPECT_EQ(all, "efghi");
}

TEST(IoVectors, ReturnsWhyItStopped) {
  const auto fails = [](const iovec*, int) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  EXPECT_EQ(MoveAll(fails, {VectorOf("a")}), ENOSPC);
  EXPECT_EQ(MoveAll([](const iovec*, int) -> ssize_t { return 0; }, {VectorOf("a")}), kIoEnded);
  EXPECT_EQ(MoveAll(fails, {}), 0) << "nothing to move";
}

}  // namespace
}  // namespace ding
