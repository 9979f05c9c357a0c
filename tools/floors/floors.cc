#include "ding_worker/tools/floors/floors.h"

#include <cblas.h>

#include <cstdlib>

namespace floors {

void Require(bool right, const char* message) {
  if (right) return;
  std::fprintf(stderr, "floors: %s (OpenBLAS kernel %s)\n", message, openblas_get_corename());
  std::exit(1);
}

void DistinctDraw::Draw(std::vector<uint32_t>* numbers) {
  Random random = random_;  // in registers
  uint64_t* const taken = taken_.data();
  for (uint32_t& number : *numbers) {
    uint64_t bit;
    do {
      number = random.Below(bound_);
      bit = uint64_t{1} << number % 64;
    } while ((taken[number / 64] & bit) != 0);
    taken[number / 64] |= bit;
  }
  for (const uint32_t number : *numbers) taken[number / 64] = 0;
  random_ = random;
}

}  // namespace floors
