#include "ding_worker/tools/build_defs/testdata/middle.h"

#include <zlib.h>

namespace ding::testdata {

unsigned long Middle() {
  const unsigned char zero = 0;
  return crc32(0, &zero, 1);
}

}  // namespace ding::testdata
