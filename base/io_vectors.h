// Reads or writes all bytes of several buffers through a file or a socket, with as many system
// calls as it takes.
//
// Threads: thread-safe (pure functions). The caller owns the bytes.
//
// Example:
//   const int error = MoveAll([fd](iovec* vectors, int count) { return writev(fd, vectors, count); },
//                             {VectorOf(header), VectorOf(value)});
//   if (error != 0) return ErrnoStatus(error, "cannot write");
#ifndef DING_WORKER_BASE_IO_VECTORS_H_
#define DING_WORKER_BASE_IO_VECTORS_H_

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

namespace ding {

using IoVectors = absl::InlinedVector<iovec, 16>;

// A vector for `bytes`, which must be writable memory if the vector is read into.
inline iovec VectorOf(absl::string_view bytes) {
  return {const_cast<char*>(bytes.data()), bytes.size()};
}

// Removes the first `count` bytes of the vectors that begin at index *first, and advances *first
// past the vectors that are then empty.
inline void DropFront(size_t count, IoVectors* vectors, size_t* first) {
  while (*first < vectors->size() && count >= (*vectors)[*first].iov_len) {
    count -= (*vectors)[*first].iov_len;
    ++*first;
  }
  if (count == 0) return;
  iovec& vector = (*vectors)[*first];
  vector.iov_base = static_cast<char*>(vector.iov_base) + count;
  vector.iov_len -= count;
}

// The result of MoveAll() when there are no more bytes to read.
inline constexpr int kIoEnded = -1;

// Calls `move` (writev, readv or the like) until all bytes are moved. The first `moved` bytes count
// as moved already. Returns 0, an errno, or kIoEnded.
template <typename Move>
int MoveAll(Move move, IoVectors vectors, size_t moved = 0) {
  size_t first = 0;
  DropFront(moved, &vectors, &first);
  while (first < vectors.size()) {
    const ssize_t count =
        move(&vectors[first], static_cast<int>(std::min<size_t>(vectors.size() - first, IOV_MAX)));
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (count == 0) return kIoEnded;
    DropFront(static_cast<size_t>(count), &vectors, &first);
  }
  return 0;
}

}  // namespace ding

#endif  // DING_WORKER_BASE_IO_VECTORS_H_
