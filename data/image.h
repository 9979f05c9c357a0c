// A picture in memory, as envs render it and metric sinks write it.
//
// Ownership: a value.   Threads: thread-compatible.
#ifndef DING_WORKER_DATA_IMAGE_H_
#define DING_WORKER_DATA_IMAGE_H_

#include <cstdint>
#include <vector>

namespace ding {

struct Image {
  int width = 0;
  int height = 0;
  // [height, width, 3]: the rows from the top; red, green and blue from 0 to 255.
  std::vector<uint8_t> rgb;
};

}  // namespace ding

#endif  // DING_WORKER_DATA_IMAGE_H_
