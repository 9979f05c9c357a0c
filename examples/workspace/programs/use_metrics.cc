// Links TensorBoardSink of ding_worker alone: it takes the address of a function, so that the
// linker needs the whole class.
#include <cstdio>

#include "ding_worker/metrics/tensorboard.h"

int main() {
  auto* volatile make = &ding::TensorBoardSink::Create;
  std::puts(make != nullptr ? "TensorBoardSink is linked" : "nothing is linked");
}
