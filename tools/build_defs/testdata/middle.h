// A header that the tests of the macros build and include.
#ifndef DING_WORKER_TOOLS_BUILD_DEFS_TESTDATA_MIDDLE_H_
#define DING_WORKER_TOOLS_BUILD_DEFS_TESTDATA_MIDDLE_H_

namespace ding::testdata {

// The CRC-32 of the single byte 0.
unsigned long Middle();

}  // namespace ding::testdata

#endif  // DING_WORKER_TOOLS_BUILD_DEFS_TESTDATA_MIDDLE_H_
