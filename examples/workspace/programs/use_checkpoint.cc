// Links CheckpointReader of ding_worker alone: it takes the address of a function, so that the
// linker needs the whole class.
#include <cstdio>

#include "ding_worker/data/checkpoint.h"

int main() {
  auto* volatile make = &ding::CheckpointReader::Open;
  std::puts(make != nullptr ? "CheckpointReader is linked" : "nothing is linked");
}
