// Adds all floors before Google Benchmark's main() runs them.
#include <cblas.h>

#include <cstdio>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "ding_worker/tools/floors/floors.h"

namespace floors {
namespace {

const bool added = [] {
  openblas_set_num_threads(1);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);  // Denormal numbers are zeros.
#endif
  std::fprintf(stderr, "OpenBLAS kernel: %s\n", openblas_get_corename());
  AddReplayFloors();
  AddNetworkFloors();
  AddUpdateFloors();
  AddEnvFloors();
  AddWireFloors();
  return true;
}();

}  // namespace
}  // namespace floors
